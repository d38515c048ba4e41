// The resources of the API. Date-times are strings as in RFC 3339, which keep their microseconds.

// An int64. A string is exact where a number is not, and unlike a bigint it works in JSON, URLs and ===.
export type Id = string;
export type IdInput = string | number | bigint;

export type PetStatus = "available" | "pending" | "sold";
export type OrderStatus = "placed" | "approved" | "delivered" | "cancelled";
export type Plan = "free" | "pro" | "business" | "enterprise";
export type Scope = "pets:read" | "pets:write" | "orders:read" | "orders:write" | "events:read";

export interface NewPet {
  name: string;
  categoryId: IdInput;
  status?: PetStatus;
}

export interface Pet {
  id: Id;
  name: string;
  categoryId: Id;
  status: PetStatus;
}

export interface Category {
  id: Id;
  name: string;
  description: string;
}

export interface Order {
  id: Id;
  petId: Id;
  quantity: number;
  status: OrderStatus;
  shipDate: string | null;
  complete: boolean;
}

export interface Event {
  id: Id;
  type: string;
  createdAt: string;
  data: { pet?: Pet; order?: Order; [name: string]: unknown };
}

export interface Account {
  id: string;
  name: string;
  plan: Plan;
  createdAt: string;
}

export interface Key {
  id: string;
  name: string;
  scopes: Scope[];
  allowedNetworks: string[];
  createdAt: string;
  expiresAt: string | null;
  lastUsedAt: string | null;
}

export interface QuotaWindow {
  limit: number;
  used: number;
  remaining: number;
  resetsAt: string;
}

export interface Quota {
  minute: QuotaWindow;
  day: QuotaWindow;
}

export interface AccountOverview {
  account: Account;
  key: Key;
  quota: Quota;
  ban: { until: string } | null;
}

// The rows of a page. `nextCursor` gets the next one; it is null on the last page of a list.
export type Page<T> = T[] & { nextCursor: string | null };
