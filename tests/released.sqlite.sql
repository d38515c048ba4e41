-- The schema of version 1.1.0 (sqlite_master), and its migrations.
CREATE TABLE "django_migrations" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "app" varchar(255) NOT NULL, "name" varchar(255) NOT NULL, "applied" datetime NOT NULL);
CREATE TABLE "inventory_category" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(255) NOT NULL UNIQUE, "description" text NOT NULL, CONSTRAINT "category_has_a_name" CHECK (NOT ("name" = '')));
CREATE TABLE "auth_group_permissions" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "group_id" integer NOT NULL REFERENCES "auth_group" ("id") DEFERRABLE INITIALLY DEFERRED, "permission_id" integer NOT NULL REFERENCES "auth_permission" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "auth_user_groups" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "user_id" integer NOT NULL REFERENCES "auth_user" ("id") DEFERRABLE INITIALLY DEFERRED, "group_id" integer NOT NULL REFERENCES "auth_group" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "auth_user_user_permissions" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "user_id" integer NOT NULL REFERENCES "auth_user" ("id") DEFERRABLE INITIALLY DEFERRED, "permission_id" integer NOT NULL REFERENCES "auth_permission" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "accounts_plan" ("code" varchar(20) NOT NULL PRIMARY KEY, "per_minute" bigint NULL, "per_day" bigint NULL, CONSTRAINT "plan_is_known" CHECK ("code" IN ('free', 'pro', 'business', 'enterprise')), CONSTRAINT "plan_has_numbers_unless_enterprise" CHECK (((NOT ("code" = 'enterprise') AND "per_day" >= 1 AND "per_day" IS NOT NULL AND "per_minute" >= 1 AND "per_minute" IS NOT NULL) OR ("code" = 'enterprise' AND "per_day" IS NULL AND "per_minute" IS NULL))));
CREATE TABLE "accounts_dailyusage" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "day" date NOT NULL, "requests" bigint NOT NULL, "refusals" bigint NOT NULL, "key_id" bigint NOT NULL REFERENCES "accounts_apikey" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_usage_for_each_key_and_day" UNIQUE ("key_id", "day"), CONSTRAINT "usage_counts_from_zero" CHECK (("refusals" >= 0 AND "requests" >= 0)));
CREATE TABLE "inventory_orderevent" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "at" datetime NOT NULL, "from_status" varchar(9) NOT NULL, "to_status" varchar(9) NOT NULL, "by" varchar(255) NOT NULL, "reason" varchar(255) NOT NULL, "order_id" bigint NOT NULL REFERENCES "inventory_order" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "inventory_petevent" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "at" datetime NOT NULL, "from_status" varchar(9) NOT NULL, "to_status" varchar(9) NOT NULL, "by" varchar(255) NOT NULL, "reason" varchar(255) NOT NULL, "order_id" bigint NULL REFERENCES "inventory_order" ("id") DEFERRABLE INITIALLY DEFERRED, "pet_id" bigint NOT NULL REFERENCES "inventory_pet" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "django_content_type" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "app_label" varchar(100) NOT NULL, "model" varchar(100) NOT NULL);
CREATE TABLE "backoffice_auditentry" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "at" datetime NOT NULL, "actor_id" bigint NULL, "actor_name" varchar(150) NOT NULL, "action" varchar(20) NOT NULL, "model" varchar(100) NOT NULL, "object_id" varchar(255) NOT NULL, "object_text" varchar(255) NOT NULL, "before" text NOT NULL CHECK ((JSON_VALID("before") OR "before" IS NULL)), "after" text NOT NULL CHECK ((JSON_VALID("after") OR "after" IS NULL)), "reason" varchar(500) NOT NULL, "address" char(39) NOT NULL, "request_id" varchar(128) NOT NULL);
CREATE TABLE "auth_permission" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "content_type_id" integer NOT NULL REFERENCES "django_content_type" ("id") DEFERRABLE INITIALLY DEFERRED, "codename" varchar(100) NOT NULL, "name" varchar(255) NOT NULL);
CREATE TABLE "auth_group" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(150) NOT NULL UNIQUE);
CREATE TABLE "auth_user" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "password" varchar(128) NOT NULL, "last_login" datetime NULL, "is_superuser" bool NOT NULL, "username" varchar(150) NOT NULL UNIQUE, "last_name" varchar(150) NOT NULL, "email" varchar(254) NOT NULL, "is_staff" bool NOT NULL, "is_active" bool NOT NULL, "date_joined" datetime NOT NULL, "first_name" varchar(150) NOT NULL);
CREATE TABLE "accounts_accountdayload" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "day" date NOT NULL, "minutes" text NOT NULL CHECK ((JSON_VALID("minutes") OR "minutes" IS NULL)), "account_id" bigint NOT NULL REFERENCES "accounts_account" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_load_for_each_account_and_day" UNIQUE ("account_id", "day"));
CREATE TABLE "accounts_deprecateduse" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "operation" varchar(50) NOT NULL, "day" date NOT NULL, "requests" bigint NOT NULL, "last_call_at" datetime NOT NULL, "account_id" bigint NOT NULL REFERENCES "accounts_account" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_use_for_each_account_operation_and_day" UNIQUE ("account_id", "operation", "day"));
CREATE TABLE "accounts_minuteload" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "minute" bigint NOT NULL, "requests" bigint NOT NULL, "written_at" bigint NOT NULL, "account_id" bigint NOT NULL REFERENCES "accounts_account" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_load_for_each_account_and_minute" UNIQUE ("account_id", "minute"));
CREATE TABLE "accounts_quotacounter" ("account_id" bigint NOT NULL PRIMARY KEY REFERENCES "accounts_account" ("id") DEFERRABLE INITIALLY DEFERRED, "minute_ends" bigint NOT NULL, "minute_used" bigint NOT NULL, "day" bigint NOT NULL, "day_used" bigint NOT NULL, "seen_at" bigint NOT NULL, "admitted" bool NOT NULL, "day_here" bigint DEFAULT 0 NOT NULL, CONSTRAINT "quota_counts_from_zero" CHECK (("day_used" >= 0 AND "minute_used" >= 0)));
CREATE TABLE "accounts_publication" ("key_id" bigint NOT NULL PRIMARY KEY, "version" bigint NOT NULL, "told" bigint NOT NULL);
CREATE TABLE "accounts_keyevent" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "action" varchar(10) NOT NULL, "at" datetime NOT NULL, "actor_name" varchar(255) NOT NULL, "reason" varchar(255) NOT NULL, "actor_id" integer NULL, "key_id" bigint NOT NULL, CONSTRAINT "key_event_is_known" CHECK ("action" IN ('issued', 'rotated', 'revoked', 'banned', 'unbanned')));
CREATE TABLE "accounts_event" ("account_id" bigint NOT NULL, "type" varchar(30) NOT NULL, "created_at" bigint NOT NULL, "data" text NOT NULL, "id" bigint NOT NULL PRIMARY KEY, "numbered_at" bigint NOT NULL);
CREATE TABLE "accounts_warned" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "type" varchar(30) NOT NULL, "subject_id" bigint NOT NULL, "threshold" smallint NOT NULL, "of_window" bigint NOT NULL, "at" datetime NOT NULL, CONSTRAINT "one_warning_for_each_window" UNIQUE ("type", "subject_id", "threshold", "of_window"));
CREATE TABLE "accounts_eventdraft" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "account_id" bigint NOT NULL, "type" varchar(30) NOT NULL, "created_at" bigint NOT NULL, "data" text NOT NULL, CONSTRAINT "event_is_public_or_of_an_account" CHECK ((("account_id" = 0 AND "type" LIKE 'pet%' ESCAPE '\') OR ("account_id" > 0 AND NOT ("type" LIKE 'pet%' ESCAPE '\')))));
CREATE TABLE "accounts_feed" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "last_id" bigint NOT NULL, "numbered_at" bigint NOT NULL, "cleared_id" bigint NOT NULL, "swept_at" bigint NOT NULL, "cleared_at" bigint NOT NULL, CONSTRAINT "feed_is_one_row" CHECK ("id" = 1), CONSTRAINT "feed_keeps_what_is_new" CHECK ("cleared_id" <= ("last_id")));
CREATE TABLE "accounts_apikey" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" varchar(14) NOT NULL UNIQUE, "mode" varchar(4) NOT NULL, "name" varchar(255) NOT NULL, "digest" varchar(64) NOT NULL, "pepper_number" smallint unsigned NOT NULL CHECK ("pepper_number" >= 0), "scopes" varchar(100) NOT NULL, "allowed_networks" text NOT NULL CHECK ((JSON_VALID("allowed_networks") OR "allowed_networks" IS NULL)), "created_at" datetime NOT NULL, "expires_at" datetime NULL, "revoked_at" datetime NULL, "revoked_reason" varchar(255) NOT NULL, "last_used_at" datetime NULL, "account_id" bigint NOT NULL REFERENCES "accounts_account" ("id") DEFERRABLE INITIALLY DEFERRED, "rotated_from_id" bigint NULL UNIQUE REFERENCES "accounts_apikey" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "key_has_a_mode" CHECK ("mode" IN ('live', 'test')), CONSTRAINT "key_ends_after_it_began" CHECK (("expires_at" IS NULL OR "expires_at" > ("created_at"))), CONSTRAINT "key_revoked_with_a_reason" CHECK ((("revoked_at" IS NULL AND "revoked_reason" = '') OR ("revoked_at" IS NOT NULL AND NOT ("revoked_reason" = '')))), CONSTRAINT "key_scopes_are_known" CHECK ("scopes" IN ('pets:read', 'pets:write', 'orders:read', 'orders:write', 'events:read', 'pets:read pets:write', 'pets:read orders:read', 'pets:read orders:write', 'pets:read events:read', 'pets:write orders:read', 'pets:write orders:write', 'pets:write events:read', 'orders:read orders:write', 'orders:read events:read', 'orders:write events:read', 'pets:read pets:write orders:read', 'pets:read pets:write orders:write', 'pets:read pets:write events:read', 'pets:read orders:read orders:write', 'pets:read orders:read events:read', 'pets:read orders:write events:read', 'pets:write orders:read orders:write', 'pets:write orders:read events:read', 'pets:write orders:write events:read', 'orders:read orders:write events:read', 'pets:read pets:write orders:read orders:write', 'pets:read pets:write orders:read events:read', 'pets:read pets:write orders:write events:read', 'pets:read orders:read orders:write events:read', 'pets:write orders:read orders:write events:read', 'pets:read pets:write orders:read orders:write events:read')));
CREATE TABLE "accounts_account" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "public_id" varchar(8) NOT NULL UNIQUE, "name" varchar(255) NOT NULL UNIQUE, "per_minute" bigint NULL, "per_day" bigint NULL, "created_at" datetime NOT NULL, "plan_id" varchar(20) NOT NULL REFERENCES "accounts_plan" ("code") DEFERRABLE INITIALLY DEFERRED, "contact_email" varchar(254) DEFAULT '' NOT NULL, "notes" text DEFAULT '' NOT NULL, "suspended_at" datetime NULL, "suspended_reason" varchar(255) DEFAULT '' NOT NULL, CONSTRAINT "account_has_a_name" CHECK (NOT ("name" = '')), CONSTRAINT "account_has_numbers_if_enterprise" CHECK ((("plan_id" = 'enterprise' AND "per_day" >= 1 AND "per_day" IS NOT NULL AND "per_minute" >= 1 AND "per_minute" IS NOT NULL) OR (NOT ("plan_id" = 'enterprise') AND "per_day" IS NULL AND "per_minute" IS NULL))), CONSTRAINT "account_suspended_with_a_reason" CHECK ((("suspended_at" IS NULL AND "suspended_reason" = '') OR ("suspended_at" IS NOT NULL AND NOT ("suspended_reason" = '')))));
CREATE TABLE "accounts_refusal" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "request_id" varchar(128) NOT NULL, "at" datetime NOT NULL, "rule" varchar(20) NOT NULL, "method" varchar(8) NOT NULL, "route" varchar(100) NOT NULL, "minute_limit" bigint NULL, "minute_used" bigint NULL, "minute_ends_at" datetime NULL, "day_limit" bigint NULL, "day_used" bigint NULL, "day_ends_at" datetime NULL, "ban_ends_at" datetime NULL, "account_id" bigint NOT NULL REFERENCES "accounts_account" ("id") DEFERRABLE INITIALLY DEFERRED, "address" char(39) NULL, "scope" varchar(20) DEFAULT '' NOT NULL, "key_id" bigint NOT NULL REFERENCES "accounts_apikey" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "refusal_by_ban_has_its_end" CHECK ((NOT ("rule" = 'api_key_banned') OR "ban_ends_at" IS NOT NULL)), CONSTRAINT "refusal_for_a_known_rule" CHECK ("rule" IN ('rate_limit_exceeded', 'daily_quota_exceeded', 'api_key_banned', 'revoked', 'expired', 'elsewhere', 'suspended', 'insufficient_scope')));
CREATE TABLE "accounts_idempotencyrecord" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "key" varchar(255) NOT NULL, "fingerprint" varchar(64) NOT NULL, "status" smallint unsigned NULL CHECK ("status" >= 0), "location" varchar(1024) NOT NULL, "body" BLOB NOT NULL, "created_at" datetime NOT NULL, "account_id" bigint NOT NULL REFERENCES "accounts_account" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_answer_for_an_idempotency_key" UNIQUE ("account_id", "key"));
CREATE TABLE "accounts_keystanding" ("key_id" bigint NOT NULL PRIMARY KEY REFERENCES "accounts_apikey" ("id") DEFERRABLE INITIALLY DEFERRED, "told_until" bigint NOT NULL, "strikes" bigint NOT NULL, "strikes_end" bigint NOT NULL, "banned_at" bigint NOT NULL, "banned_until" bigint NOT NULL, "ban_level" bigint NOT NULL, "lifts" bigint DEFAULT 0 NOT NULL, "looks" bigint DEFAULT 0 NOT NULL, "looks_end" bigint DEFAULT 0 NOT NULL, "refusing_until" bigint DEFAULT 0 NOT NULL, "first_refusal_at" bigint DEFAULT 0 NOT NULL, "last_strike_at" bigint DEFAULT 0 NOT NULL, "window_refusals" bigint DEFAULT 0 NOT NULL, "window_strikes" bigint DEFAULT 0 NOT NULL, CONSTRAINT "standing_counts_from_zero" CHECK (("ban_level" >= 0 AND "strikes" >= 0)), CONSTRAINT "ban_ends_after_it_began" CHECK ("banned_until" >= ("banned_at")));
CREATE TABLE "django_admin_log" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "object_id" text NULL, "object_repr" varchar(200) NOT NULL, "action_flag" smallint unsigned NOT NULL CHECK ("action_flag" >= 0), "change_message" text NOT NULL, "content_type_id" integer NULL REFERENCES "django_content_type" ("id") DEFERRABLE INITIALLY DEFERRED, "user_id" integer NOT NULL REFERENCES "auth_user" ("id") DEFERRABLE INITIALLY DEFERRED, "action_time" datetime NOT NULL);
CREATE TABLE "backoffice_failedsignin" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "at" datetime NOT NULL, "user_id" bigint NULL, "username" varchar(150) NOT NULL, "reason" varchar(500) NOT NULL, "address" char(39) NOT NULL, "request_id" varchar(128) NOT NULL);
CREATE TABLE "inventory_pet" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(255) NOT NULL, "status" varchar(9) NOT NULL, "created_at" datetime NOT NULL, "updated_at" datetime NOT NULL, "category_id" bigint NOT NULL REFERENCES "inventory_category" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "pet_has_a_name" CHECK (NOT ("name" = '')), CONSTRAINT "pet_status_is_known" CHECK ("status" IN ('available', 'pending', 'sold')));
CREATE TABLE "inventory_petupload" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "token" char(32) NOT NULL, "file_name" varchar(255) NOT NULL, "file_format" varchar(5) NOT NULL, "content" BLOB NOT NULL, "made_at" datetime NOT NULL, "user_id" integer NOT NULL UNIQUE REFERENCES "auth_user" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "inventory_order" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "status" varchar(9) NOT NULL, "ship_date" datetime NULL, "created_at" datetime NOT NULL, "updated_at" datetime NOT NULL, "pet_id" bigint NOT NULL REFERENCES "inventory_pet" ("id") DEFERRABLE INITIALLY DEFERRED, "account_id" bigint NOT NULL REFERENCES "accounts_account" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "order_status_is_known" CHECK ("status" IN ('placed', 'approved', 'delivered', 'cancelled')), CONSTRAINT "order_ships_once_approved" CHECK (("ship_date" IS NULL OR NOT ("status" = 'placed'))));
CREATE TABLE "inventory_stockcount" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "due_at" datetime NOT NULL, "counted_at" datetime NULL, "took_ms" integer unsigned NOT NULL CHECK ("took_ms" >= 0), "pets" text NOT NULL CHECK ((JSON_VALID("pets") OR "pets" IS NULL)), "orders_placed" bigint NOT NULL, "orders_approved" bigint NOT NULL, "orders_shipped" bigint DEFAULT 0 NOT NULL, "orders_done" bigint DEFAULT 0 NOT NULL, CONSTRAINT "stock_count_is_one_row" CHECK ("id" = 1));
CREATE TABLE "otp_static_statictoken" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "token" varchar(16) NOT NULL, "device_id" integer NOT NULL REFERENCES "otp_static_staticdevice" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "otp_static_staticdevice" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(64) NOT NULL, "confirmed" bool NOT NULL, "user_id" integer NOT NULL REFERENCES "auth_user" ("id") DEFERRABLE INITIALLY DEFERRED, "throttling_failure_count" integer unsigned NOT NULL CHECK ("throttling_failure_count" >= 0), "throttling_failure_timestamp" datetime NULL, "created_at" datetime NULL, "last_used_at" datetime NULL);
CREATE TABLE "otp_totp_totpdevice" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(64) NOT NULL, "confirmed" bool NOT NULL, "key" varchar(80) NOT NULL, "step" smallint unsigned NOT NULL CHECK ("step" >= 0), "t0" bigint NOT NULL, "digits" smallint unsigned NOT NULL CHECK ("digits" >= 0), "tolerance" smallint unsigned NOT NULL CHECK ("tolerance" >= 0), "drift" smallint NOT NULL, "last_t" bigint NOT NULL, "user_id" integer NOT NULL REFERENCES "auth_user" ("id") DEFERRABLE INITIALLY DEFERRED, "throttling_failure_count" integer unsigned NOT NULL CHECK ("throttling_failure_count" >= 0), "throttling_failure_timestamp" datetime NULL, "created_at" datetime NULL, "last_used_at" datetime NULL);
CREATE TABLE "django_session" ("session_key" varchar(40) NOT NULL PRIMARY KEY, "session_data" text NOT NULL, "expire_date" datetime NOT NULL);
CREATE UNIQUE INDEX "auth_group_permissions_group_id_permission_id_0cd325b0_uniq" ON "auth_group_permissions" ("group_id", "permission_id");
CREATE INDEX "auth_group_permissions_group_id_b120cbf9" ON "auth_group_permissions" ("group_id");
CREATE INDEX "auth_group_permissions_permission_id_84c5c92e" ON "auth_group_permissions" ("permission_id");
CREATE UNIQUE INDEX "auth_user_groups_user_id_group_id_94350c0c_uniq" ON "auth_user_groups" ("user_id", "group_id");
CREATE INDEX "auth_user_groups_user_id_6a12ed8b" ON "auth_user_groups" ("user_id");
CREATE INDEX "auth_user_groups_group_id_97559544" ON "auth_user_groups" ("group_id");
CREATE UNIQUE INDEX "auth_user_user_permissions_user_id_permission_id_14a6b632_uniq" ON "auth_user_user_permissions" ("user_id", "permission_id");
CREATE INDEX "auth_user_user_permissions_user_id_a95ead1b" ON "auth_user_user_permissions" ("user_id");
CREATE INDEX "auth_user_user_permissions_permission_id_1fbb5f2c" ON "auth_user_user_permissions" ("permission_id");
CREATE INDEX "accounts_dailyusage_key_id_5047919e" ON "accounts_dailyusage" ("key_id");
CREATE INDEX "usage_by_day" ON "accounts_dailyusage" ("day");
CREATE INDEX "inventory_orderevent_order_id_eefb9b9e" ON "inventory_orderevent" ("order_id");
CREATE INDEX "inventory_petevent_order_id_f9639d47" ON "inventory_petevent" ("order_id");
CREATE INDEX "inventory_petevent_pet_id_4b2266ce" ON "inventory_petevent" ("pet_id");
CREATE UNIQUE INDEX "django_content_type_app_label_model_76bd3d3b_uniq" ON "django_content_type" ("app_label", "model");
CREATE INDEX "backoffice_auditentry_at_a0a36da7" ON "backoffice_auditentry" ("at");
CREATE INDEX "audit_by_staff" ON "backoffice_auditentry" ("actor_id", "id" DESC);
CREATE INDEX "audit_by_action" ON "backoffice_auditentry" ("action", "id" DESC);
CREATE INDEX "audit_by_model" ON "backoffice_auditentry" ("model", "id" DESC);
CREATE INDEX "audit_by_object" ON "backoffice_auditentry" ("object_id", "id" DESC);
CREATE INDEX "audit_by_object_text" ON "backoffice_auditentry" ("object_text", "id" DESC);
CREATE INDEX "audit_by_request" ON "backoffice_auditentry" ("request_id", "id" DESC);
CREATE UNIQUE INDEX "auth_permission_content_type_id_codename_01ab375a_uniq" ON "auth_permission" ("content_type_id", "codename");
CREATE INDEX "auth_permission_content_type_id_2f476e4b" ON "auth_permission" ("content_type_id");
CREATE INDEX "accounts_accountdayload_day_08de4735" ON "accounts_accountdayload" ("day");
CREATE INDEX "accounts_deprecateduse_day_ff86c83a" ON "accounts_deprecateduse" ("day");
CREATE INDEX "publication_untold" ON "accounts_publication" ("key_id") WHERE "told" < ("version");
CREATE INDEX "accounts_keyevent_actor_id_568ebc1b" ON "accounts_keyevent" ("actor_id");
CREATE INDEX "accounts_keyevent_key_id_31d60a67" ON "accounts_keyevent" ("key_id");
CREATE INDEX "event_of_account" ON "accounts_event" ("account_id", (("id" + 0)));
CREATE INDEX "event_of_account_and_type" ON "accounts_event" ("account_id", "type", ((0 + "id")));
CREATE INDEX "accounts_warned_at_f28a7cc6" ON "accounts_warned" ("at");
CREATE INDEX "accounts_apikey_account_id_4f4d624b" ON "accounts_apikey" ("account_id");
CREATE INDEX "key_by_end" ON "accounts_apikey" ("expires_at") WHERE ("expires_at" IS NOT NULL AND "revoked_at" IS NULL);
CREATE INDEX "accounts_account_plan_id_cecf0d2f" ON "accounts_account" ("plan_id");
CREATE INDEX "private_event_of_type" ON "accounts_event" ("type", (("id" + 0))) WHERE "account_id" > 0;
CREATE INDEX "accounts_refusal_at_eb6323e5" ON "accounts_refusal" ("at");
CREATE INDEX "refusal_by_request" ON "accounts_refusal" ("request_id", "id" DESC);
CREATE INDEX "refusal_by_account" ON "accounts_refusal" ("account_id", "id" DESC);
CREATE INDEX "refusal_by_key" ON "accounts_refusal" ("key_id", "id" DESC);
CREATE INDEX "accounts_idempotencyrecord_created_at_45603eec" ON "accounts_idempotencyrecord" ("created_at");
CREATE INDEX "accounts_keystanding_banned_until_e4a016de" ON "accounts_keystanding" ("banned_until");
CREATE INDEX "django_admin_log_content_type_id_c4bce8eb" ON "django_admin_log" ("content_type_id");
CREATE INDEX "django_admin_log_user_id_c564eba6" ON "django_admin_log" ("user_id");
CREATE INDEX "backoffice_failedsignin_at_472ede72" ON "backoffice_failedsignin" ("at");
CREATE INDEX "failed_sign_in_by_user" ON "backoffice_failedsignin" ("user_id", "id" DESC);
CREATE INDEX "failed_sign_in_by_name" ON "backoffice_failedsignin" ("username", "id" DESC);
CREATE INDEX "failed_sign_in_by_request" ON "backoffice_failedsignin" ("request_id", "id" DESC);
CREATE INDEX "pet_by_status" ON "inventory_pet" ("status", "id");
CREATE INDEX "pet_available" ON "inventory_pet" ("id") WHERE "status" = 'available';
CREATE INDEX "pet_pending" ON "inventory_pet" ("id") WHERE "status" = 'pending';
CREATE INDEX "pet_sold" ON "inventory_pet" ("id") WHERE "status" = 'sold';
CREATE INDEX "inventory_petupload_made_at_9dc5468a" ON "inventory_petupload" ("made_at");
CREATE INDEX "pet_of_category" ON "inventory_pet" ("category_id", (("id" + 0)));
CREATE INDEX "pet_of_category_and_status" ON "inventory_pet" ("category_id", "status", ((0 + "id")));
CREATE UNIQUE INDEX "one_live_order_for_a_pet" ON "inventory_order" ("pet_id") WHERE "status" IN ('placed', 'approved');
CREATE INDEX "inventory_order_pet_id_6e6c99db" ON "inventory_order" ("pet_id");
CREATE INDEX "order_by_time" ON "inventory_order" ("created_at");
CREATE INDEX "order_of_account" ON "inventory_order" ("account_id", (("id" + 0)));
CREATE INDEX "order_of_account_and_status" ON "inventory_order" ("account_id", "status", ((0 + "id")));
CREATE INDEX "order_of_status" ON "inventory_order" ("status", (("id" + 0)));
CREATE INDEX "order_to_approve" ON "inventory_order" ("id") WHERE "status" = 'placed';
CREATE INDEX "order_to_ship" ON "inventory_order" ("id") WHERE ("ship_date" IS NULL AND "status" = 'approved');
CREATE INDEX "order_shipped" ON "inventory_order" ("id") WHERE ("ship_date" IS NOT NULL AND "status" = 'approved');
CREATE INDEX "order_done" ON "inventory_order" ("id") WHERE "status" IN ('delivered', 'cancelled');
CREATE INDEX "pet_by_name_in_nfc" ON "inventory_pet" ((UPPER("name")), "id");
CREATE INDEX "otp_static_statictoken_token_d0a51866" ON "otp_static_statictoken" ("token");
CREATE INDEX "otp_static_statictoken_device_id_74b7c7d1" ON "otp_static_statictoken" ("device_id");
CREATE INDEX "otp_static_staticdevice_user_id_7f9cff2b" ON "otp_static_staticdevice" ("user_id");
CREATE INDEX "otp_totp_totpdevice_user_id_0fb18292" ON "otp_totp_totpdevice" ("user_id");
CREATE INDEX "django_session_expire_date_a5c62663" ON "django_session" ("expire_date");
CREATE TRIGGER audit_refuses_update BEFORE update ON backoffice_auditentry
    BEGIN SELECT RAISE(ABORT, 'The audit trail is append-only.'); END;
CREATE TRIGGER audit_refuses_delete BEFORE delete ON backoffice_auditentry
    BEGIN SELECT RAISE(ABORT, 'The audit trail is append-only.'); END;
CREATE TRIGGER copy_key_event AFTER INSERT ON accounts_keyevent BEGIN INSERT INTO backoffice_auditentry (at, actor_id, actor_name, action, model, object_id, object_text, before, after, reason, address, request_id)
    SELECT NEW.at, NEW.actor_id, substr(NEW.actor_name, 1, 150), NEW.action,
    'accounts.apikey', CAST(NEW.key_id AS varchar(20)), k.public_id, '{}', '{}', NEW.reason,
    '0.0.0.0', '' FROM accounts_apikey AS k WHERE k.id = NEW.key_id; END;
INSERT INTO django_migrations (app, name, applied) VALUES
('inventory', '0001_initial', '2026-11-26 00:00:00+00:00'),
('inventory', '0002_categories', '2026-11-26 00:00:00+00:00'),
('inventory', '0003_lists_by_status', '2026-11-26 00:00:00+00:00'),
('contenttypes', '0001_initial', '2026-11-26 00:00:00+00:00'),
('auth', '0001_initial', '2026-11-26 00:00:00+00:00'),
('accounts', '0001_initial', '2026-11-26 00:00:00+00:00'),
('accounts', '0002_plans', '2026-11-26 00:00:00+00:00'),
('accounts', '0003_standing_and_usage', '2026-11-26 00:00:00+00:00'),
('accounts', '0004_key_ends_within_100_years', '2026-11-26 00:00:00+00:00'),
('inventory', '0004_orders', '2026-11-26 00:00:00+00:00'),
('inventory', '0005_histories_stay', '2026-11-26 00:00:00+00:00'),
('contenttypes', '0002_remove_content_type_name', '2026-11-26 00:00:00+00:00'),
('backoffice', '0001_audit', '2026-11-26 00:00:00+00:00'),
('backoffice', '0002_audit_is_append_only', '2026-11-26 00:00:00+00:00'),
('auth', '0002_alter_permission_name_max_length', '2026-11-26 00:00:00+00:00'),
('auth', '0003_alter_user_email_max_length', '2026-11-26 00:00:00+00:00'),
('auth', '0004_alter_user_username_opts', '2026-11-26 00:00:00+00:00'),
('auth', '0005_alter_user_last_login_null', '2026-11-26 00:00:00+00:00'),
('auth', '0006_require_contenttypes_0002', '2026-11-26 00:00:00+00:00'),
('auth', '0007_alter_validators_add_error_messages', '2026-11-26 00:00:00+00:00'),
('auth', '0008_alter_user_username_max_length', '2026-11-26 00:00:00+00:00'),
('auth', '0009_alter_user_last_name_max_length', '2026-11-26 00:00:00+00:00'),
('auth', '0010_alter_group_name_max_length', '2026-11-26 00:00:00+00:00'),
('auth', '0011_update_proxy_permissions', '2026-11-26 00:00:00+00:00'),
('auth', '0012_alter_user_first_name_max_length', '2026-11-26 00:00:00+00:00'),
('accounts', '0005_idempotency', '2026-11-26 00:00:00+00:00'),
('accounts', '0006_records_for_staff', '2026-11-26 00:00:00+00:00'),
('backoffice', '0003_groups', '2026-11-26 00:00:00+00:00'),
('backoffice', '0004_audit_is_not_emptied', '2026-11-26 00:00:00+00:00'),
('backoffice', '0005_entries_about_keys', '2026-11-26 00:00:00+00:00'),
('accounts', '0007_publications_and_shares_of_a_day', '2026-11-26 00:00:00+00:00'),
('accounts', '0008_key_events_hold_nothing_back', '2026-11-26 00:00:00+00:00'),
('accounts', '0009_key_events_in_the_audit_trail', '2026-11-26 00:00:00+00:00'),
('accounts', '0010_looks_at_an_account', '2026-11-26 00:00:00+00:00'),
('accounts', '0011_events', '2026-11-26 00:00:00+00:00'),
('accounts', '0012_scope_of_events', '2026-11-26 00:00:00+00:00'),
('accounts', '0013_keys_with_all_scopes', '2026-11-26 00:00:00+00:00'),
('accounts', '0014_keys_by_their_end', '2026-11-26 00:00:00+00:00'),
('accounts', '0015_suspension', '2026-11-26 00:00:00+00:00'),
('accounts', '0016_suspension_checked', '2026-11-26 00:00:00+00:00'),
('accounts', '0017_private_events_by_type', '2026-11-26 00:00:00+00:00'),
('accounts', '0018_refusals_of_keys', '2026-11-26 00:00:00+00:00'),
('accounts', '0019_refusals_by_key', '2026-11-26 00:00:00+00:00'),
('accounts', '0020_refusals_of_a_key', '2026-11-26 00:00:00+00:00'),
('accounts', '0021_answers_by_key_alone', '2026-11-26 00:00:00+00:00'),
('accounts', '0022_most_requests_of_a_limit', '2026-11-26 00:00:00+00:00'),
('accounts', '0023_refusals_in_a_window', '2026-11-26 00:00:00+00:00'),
('accounts', '0024_reword_help_texts', '2026-11-26 00:00:00+00:00'),
('accounts', '0025_rename_fields', '2026-11-26 00:00:00+00:00'),
('admin', '0001_initial', '2026-11-26 00:00:00+00:00'),
('admin', '0002_logentry_remove_auto_add', '2026-11-26 00:00:00+00:00'),
('admin', '0003_logentry_add_action_flag_choices', '2026-11-26 00:00:00+00:00'),
('backoffice', '0006_entries_about_accounts', '2026-11-26 00:00:00+00:00'),
('backoffice', '0007_groups_that_see_events', '2026-11-26 00:00:00+00:00'),
('backoffice', '0008_name_of_the_trail', '2026-11-26 00:00:00+00:00'),
('backoffice', '0009_failed_sign_ins', '2026-11-26 00:00:00+00:00'),
('inventory', '0006_stock_count', '2026-11-26 00:00:00+00:00'),
('inventory', '0007_back_office_lists', '2026-11-26 00:00:00+00:00'),
('inventory', '0008_indexes_of_filtered_lists', '2026-11-26 00:00:00+00:00'),
('inventory', '0009_indexes_that_no_list_reads', '2026-11-26 00:00:00+00:00'),
('inventory', '0010_orders_of_an_account', '2026-11-26 00:00:00+00:00'),
('inventory', '0011_stages_of_orders', '2026-11-26 00:00:00+00:00'),
('inventory', '0012_pets_by_name_in_nfc', '2026-11-26 00:00:00+00:00'),
('inventory', '0013_remove_pet_by_name', '2026-11-26 00:00:00+00:00'),
('otp_static', '0001_initial', '2026-11-26 00:00:00+00:00'),
('otp_static', '0002_throttling', '2026-11-26 00:00:00+00:00'),
('otp_static', '0003_add_timestamps', '2026-11-26 00:00:00+00:00'),
('otp_totp', '0001_initial', '2026-11-26 00:00:00+00:00'),
('otp_totp', '0002_auto_20190420_0723', '2026-11-26 00:00:00+00:00'),
('otp_totp', '0003_add_timestamps', '2026-11-26 00:00:00+00:00'),
('sessions', '0001_initial', '2026-11-26 00:00:00+00:00');
