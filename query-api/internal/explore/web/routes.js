// URL fragments of views. Browsers do not send them to servers.

export function go(hash) {
  if (location.hash === "#" + hash) window.dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
}

export function personHash(webset, name) {
  return "#person?" + new URLSearchParams({ [webset]: name });
}

export function companyHash(field, value) {
  return "#company?" + new URLSearchParams({ [field]: value });
}
