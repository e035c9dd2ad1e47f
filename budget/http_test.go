package budget

import "net/http"

// engineHTTP keeps no idle connection, so that nothing outlives the tests.
var engineHTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
