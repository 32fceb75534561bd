package query

// Version is the version of Prometheus whose language and engine this is. Grafana
// asks for it to know which functions there are.
const Version = "3.15.0"
