// Return the seconds until a request will be admitted.
function secondsToWait({ quota, ban }) {
  const ends = Object.values(quota).filter(({ remaining }) => remaining === 0).map(({ resetsAt }) => resetsAt);
  if (ban) ends.push(ban.until);
  return Math.max(0, ...ends.map((end) => (Date.parse(end) - Date.now()) / 1000));
}

const response = await fetch("{{ base_url }}/account", {
  headers: { Authorization: `Bearer ${process.env.PETSTORE_KEY}` },
});
if (!response.ok) throw new Error(await response.text());
const account = await response.json();

for (const [name, { remaining, limit, resetsAt }] of Object.entries(account.quota)) {
  console.log(`${name}: ${remaining} of ${limit} left until ${resetsAt}`);
}
console.log(`Next request in ${Math.ceil(secondsToWait(account))} s`);
