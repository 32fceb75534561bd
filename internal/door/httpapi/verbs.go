package httpapi

import (
	"net/http"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/text/words"
)

// mayUse refuses a caller who may not use a route.
func mayUse(pattern string, who access.Actor) *api.Problem {
	if err := access.May(who, verbs[pattern], access.Object{}); err != nil {
		p := problems.New(http.StatusForbidden, "not_allowed", "%s.", words.UpperFirst(err.Error()))
		if verbs[pattern] == access.Configure {
			p.Detail += " Settings of users, groups, services and hooks, and all that decides who may do what, need the role admin."
		}
		return p
	}
	return nil
}

// verbs has the verb of each route. A daemon with an unlisted route does not start.
// docs/reference/access.md has the same table, with the roles. The desk and the ledger
// check whether the caller may apply the verb to an object; sight decides what a caller
// sees of others.
var verbs = map[string]access.Verb{
	"GET /healthz": access.Probe, // probes do not identify themselves
	"GET /readyz":  access.Probe,
	"GET /metrics": access.Scrape,

	"GET /":              access.Probe, // the page is the same for everybody
	"GET /favicon.svg":   access.Probe,
	"GET /assets/{file}": access.Probe,

	"GET /help":                 access.Probe, // and so is the manual
	"GET /help/{page}":          access.Probe,
	"GET /help/pictures/{file}": access.Probe,

	"GET /openapi.json": access.Look,
	"GET /docs":         access.Look,
	"GET /api/version":  access.Look,
	"GET /api/whoami":   access.Look,
	"GET /api/quota":    access.Look, // for those of others: access.Inspect

	"GET /api/gpu/status":            access.Look,
	"GET /api/gpu/status/all":        access.Look,
	"GET /api/gpu/metrics":           access.Look,
	"GET /api/gpu/metrics/history":   access.Look,
	"GET /api/gpu/temperature/trend": access.Look,
	"GET /api/gpu/memory/available":  access.Look,
	"GET /api/gpu/throttle/status":   access.Look,
	"GET /api/gpu/config":            access.Look,
	"GET /api/gpu/config/sources":    access.Look,
	"GET /api/leases":                access.Look,
	"GET /api/leases/{id}":           access.Look,
	"GET /api/leases/{id}/explain":   access.Look,
	"GET /api/batches":               access.Look,
	"GET /api/energy":                access.Look,
	"GET /api/measurements":          access.Look,
	"GET /api/orphans":               access.Look,
	"GET /api/past/leases":           access.Look,
	"GET /api/report":                access.Look,
	"GET /api/users":                 access.Look, // the limits of others: access.Inspect
	"GET /api/events":                access.Look,

	"POST /api/gpu/memory/allocate":   access.Lease,
	"POST /api/gpu/memory/deallocate": access.Release,
	"POST /api/leases":                access.Lease,
	"POST /api/leases/stream":         access.Lease,
	"POST /api/leases/id":             access.Lease,
	"POST /api/leases/explain":        access.Lease,
	"POST /api/leases/adopt":          access.Adopt,
	"POST /api/leases/{id}/cancel":    access.Cancel,
	"POST /api/leases/{id}/renew":     access.Renew,
	"POST /api/leases/{id}/bind":      access.Bind,
	"POST /api/leases/{id}/resize":    access.Resize,
	"POST /api/leases/{id}/trim":      access.Trim,
	"POST /api/leases/{id}/libraries": access.Renew,
	"POST /api/leases/{id}/pace":      access.Pace,
	"POST /api/leases/{id}/park":      access.Park,
	"POST /api/leases/{id}/resume":    access.Resume,
	"POST /api/leases/{id}/wake":      access.Resume,
	"POST /api/optimize":              access.Optimize,
	"POST /api/leases/{id}/scope":     access.Scope,
	"DELETE /api/leases/{id}":         access.Release,
	"POST /api/plans":                 access.Lease,
	"POST /api/plans/run":             access.Lease,
	"PUT /api/batches/{id}":           access.Report,
	"POST /api/measurements":          access.Report,

	"POST /api/services/{name}/operations": access.Report,

	"GET /api/jobs":                access.Look,
	"GET /api/jobs/{id}":           access.Look,
	"GET /api/jobs/{id}/log":       access.Inspect,
	"POST /api/jobs":               access.Submit,
	"POST /api/jobs/{id}/redo":     access.Submit,
	"POST /api/jobs/{id}/cancel":   access.Cancel,
	"POST /api/jobs/{id}/hold":     access.Hold,
	"POST /api/jobs/{id}/unhold":   access.Hold,
	"POST /api/jobs/{id}/priority": access.Hold,
	"POST /api/jobs/minder":        access.Mind,

	"GET /api/services":                 access.Look,
	"GET /api/services/{name}":          access.Look,
	"GET /api/services/{name}/log":      access.Inspect,
	"POST /api/services/{name}/start":   access.Serve,
	"POST /api/services/{name}/stop":    access.Serve,
	"POST /api/services/{name}/restart": access.Serve,
	"POST /api/services/{name}/move":    access.Serve,

	"GET /api/front/orders":   access.Front,
	"POST /api/front/reports": access.Front,
	"POST /api/front/bring":   access.Front,
	"POST /api/front/caller":  access.Front,

	"PUT /api/gpu/config":            access.Configure,
	"POST /api/gpu/config/reload":    access.Govern,
	"POST /api/gpu/monitoring/start": access.Monitor,
	"POST /api/gpu/monitoring/stop":  access.Monitor,
	"POST /api/gpu/drain":            access.Drain,
	"POST /api/gpu/undrain":          access.Drain,
	"POST /api/gpu/check":            access.Check,

	"GET /api/tokens":           access.Entrust,
	"POST /api/tokens":          access.Entrust,
	"DELETE /api/tokens/{name}": access.Entrust,

	"POST /api/session":         access.SignIn,
	"DELETE /api/session":       access.SignIn,
	"POST /api/session/link":    access.Look,
	"GET /api/sessions":         access.Look, // for those of others: access.SignOut
	"DELETE /api/sessions/{id}": access.SignOut,

	"GET /api/audit":   access.Audit,
	"POST /api/backup": access.Backup,

	"GET /api/alerts": access.Look,
	"POST /api/alerts/{fingerprint}/acknowledge":   access.Acknowledge,
	"DELETE /api/alerts/{fingerprint}/acknowledge": access.Acknowledge,
	"GET /api/hooks":              access.Hook,
	"POST /api/hooks/{name}/test": access.Govern,

	// The routes of promapi: a caller who may read the metrics may ask about their
	// past.
	"GET /api/v1/query":               access.Scrape,
	"POST /api/v1/query":              access.Scrape,
	"GET /api/v1/query_range":         access.Scrape,
	"POST /api/v1/query_range":        access.Scrape,
	"GET /api/v1/query_exemplars":     access.Scrape,
	"POST /api/v1/query_exemplars":    access.Scrape,
	"GET /api/v1/series":              access.Scrape,
	"POST /api/v1/series":             access.Scrape,
	"GET /api/v1/labels":              access.Scrape,
	"POST /api/v1/labels":             access.Scrape,
	"GET /api/v1/label/{name}/values": access.Scrape,
	"GET /api/v1/metadata":            access.Scrape,
	"GET /api/v1/rules":               access.Scrape,
	"GET /api/v1/alerts":              access.Scrape,
	"GET /api/v1/status/buildinfo":    access.Scrape,
}

// exceeds reports whether a caller may exceed the limits of a user.
func exceeds(who access.Actor) bool { return access.May(who, access.Exceed, access.Object{}) == nil }
