'use strict';
// The command prints the address with the code behind "#", which browsers send to nobody.
(() => {
  const code = location.hash.slice(1);
  if (!code) return;
  history.replaceState(null, '', '/');
  document.querySelector('#code').value = code;
  document.querySelector('form').submit();
})();
