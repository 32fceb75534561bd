package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/problems"
)

// describe completes the description once every route is registered. The users of each
// route come from verbs; its refusals follow from its verb, its parameters and its
// body. An operation lists in Errors only those that do not follow.
func describe(text *huma.OpenAPI, verbs map[string]access.Verb, problem *huma.Schema) {
	text.Info.Description = "GPU resource manager: devices, samples, states, leases. " +
		"Memory is in MB meaning MiB (2^20 bytes). Errors are RFC 9457 problem documents with a stable code."
	text.Info.License = &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"}
	address := map[string]*huma.ServerVariable{"address": {Default: "127.0.0.1:8000", Description: "The setting daemon.listen."}}
	text.Servers = []*huma.Server{
		{URL: "/", Description: "The daemon that serves this text. The same paths are on its Unix socket."},
		{URL: "http://{address}", Description: "A daemon of this machine.", Variables: address},
		{URL: "https://{address}", Description: "A daemon with the settings daemon.tls_cert and daemon.tls_key.", Variables: address},
	}
	text.Tags = []*huma.Tag{
		{Name: "devices", Description: "Devices, their samples and their states."},
		{Name: "leases", Description: "Ask for slots and memory, and change and end leases."},
		{Name: "jobs", Description: "Have berth run programs, and see what becomes of them."},
		{Name: "front", Description: "For the process that takes requests for services."},
		{Name: "plans", Description: "Compile pipelines, and lease what their runs need."},
		{Name: "batches", Description: "How far the batches of `berth run` have got."},
		{Name: "services", Description: "See, start, stop and move the services whose programs berth runs; and what services report about their work."},
		{Name: "history", Description: "Leases that have ended, and what earlier runs used."},
		{Name: "queries", Description: "What was measured, asked for in PromQL and answered as Prometheus does."},
		{Name: "alerts", Description: "What fires of the alert rules that the daemon evaluates."},
		{Name: "events", Description: "What happens, as it happens."},
		{Name: "configuration", Description: "Read and change the settings of the daemon."},
		{Name: "access", Description: "Who the caller is, and who may do what."},
		{Name: "daemon", Description: "Whether the daemon is well, its metrics, and this text."},
	}
	text.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "A token that an administrator made with `berth token create`, or the one of the setting daemon.token. " +
			"It replaces whatever else the daemon knows about the caller, on the Unix socket too."},
		"certificate": {Type: "mutualTLS", Description: "A client certificate that daemon.tls_client_ca signed. Its common name is the user cert:NAME, " +
			"and the section users of the configuration gives it a role."},
		"session": {Type: "apiKey", In: "cookie", Name: "berth_session", Description: "The cookie that `POST /api/session` sets. Its name ends in an underscore and the port of the address, and with TLS it begins with __Host-. " +
			"A session is worth what it was begun with: a link of `berth open`, or a token. It works over TCP alone, and not beside the header Authorization."},
	}
	text.Components.Responses = map[string]*huma.Response{"Failed": problemResponse(problem, "The daemon could not do it, or the connection cannot carry it.")}
	for status, why := range refusals {
		text.Components.Responses[nameOf(status)] = problemResponse(problem, why)
	}
	for pattern, verb := range verbs {
		if op := operation(text, pattern); op != nil { // the routes of other doors may be missing
			describeRoute(op, verb)
		}
	}
	schemas := text.Components.Schemas.Map()
	delete(schemas, "ErrorModel") // the framework's errors; asProblem turns them into problems
	delete(schemas, "ErrorDetail")
}

// refusals gives the reason for a refusal, by status.
var refusals = map[int]string{
	http.StatusBadRequest:            "The body does not have the form that the path takes.",
	http.StatusUnauthorized:          "The caller must show a valid token or client certificate.",
	http.StatusForbidden:             "The role of the caller is too low, or the thing is somebody else's; detail names the role that would do. Also: a browser called for a page of another site, or by a name that is not of this machine.",
	http.StatusNotFound:              "There is no such device, lease, process, unit or token.",
	http.StatusRequestTimeout:        "The body did not arrive in time, or the request was withdrawn.",
	http.StatusConflict:              "It cannot be done as things are: no room, a duplicate, an old fence, an id that several users have.",
	http.StatusRequestEntityTooLarge: "The body is too large.",
	http.StatusUnsupportedMediaType:  "The body has a media type that the path does not take.",
	http.StatusUnprocessableEntity:   "Parameters or fields are unknown or out of range; fields lists them.",
	http.StatusUpgradeRequired:       "The path is for a lease stream.",
	http.StatusTooManyRequests:       "The caller is beyond a limit of a user, or tried too many wrong tokens.",
}

// nameOf returns the name of the component that describes a refusal.
func nameOf(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

func problemResponse(problem *huma.Schema, why string) *huma.Response {
	return &huma.Response{Description: why, Content: map[string]*huma.MediaType{problems.MediaType: {Schema: problem}}}
}

// describeRoute describes the users of a route and its refusals.
func describeRoute(op *huma.Operation, verb access.Verb) {
	own, others := verb.Least()
	op.Extensions = map[string]any{"x-role": own.String()}
	needs := "Needs the role " + own.String() + "."
	op.Security = []map[string][]string{}
	switch {
	case own == access.Stranger:
		needs = "Anybody may ask."
	case others > own:
		op.Extensions["x-role-others"] = others.String()
		needs = "Needs the role " + own.String() + ", and " + others.String() + " for what is somebody else's."
	}
	if own > access.Stranger {
		// The empty one is for callers of this machine, whom the kernel names.
		op.Security = []map[string][]string{{"token": {own.String()}}, {"certificate": {own.String()}}, {"session": {own.String()}}, {}}
		needs += " Callers on the Unix socket and on loopback need to show nothing: the kernel says who they are."
	}
	op.Description = strings.TrimSpace(op.Description + "\n\n" + needs)
	for _, p := range op.Parameters {
		p.Schema.Nullable = false // none can be null where it is written
	}

	answers := map[string]*huma.Response{"default": {Ref: "#/components/responses/Failed"}}
	for status, response := range op.Responses {
		if _, refusal := response.Content[problems.MediaType]; !refusal {
			answers[status] = response
		}
	}
	for _, status := range refusalsOf(op, own) {
		answers[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + nameOf(status)}
	}
	op.Responses = answers
}

// refusalsOf returns the statuses of the refusals of an operation that needs a role.
func refusalsOf(op *huma.Operation, needs access.Role) []int {
	found := map[int]bool{http.StatusForbidden: true}
	add := func(statuses ...int) {
		for _, status := range statuses {
			found[status] = true
		}
	}
	if needs > access.Stranger {
		add(http.StatusUnauthorized, http.StatusTooManyRequests)
	}
	for _, response := range op.Responses {
		if _, checks := response.Content[problems.MediaType]; checks { // the framework checks the parameters of this operation
			add(http.StatusUnprocessableEntity)
		}
	}
	if op.RequestBody != nil {
		add(http.StatusRequestTimeout)
		if op.RequestBody.Content["application/json"] != nil {
			add(http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
		}
	}
	if slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.Name == "gpu" }) {
		add(http.StatusNotFound)
	}
	for _, status := range op.Errors {
		if status < http.StatusInternalServerError { // default describes the others
			add(status)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// operation returns the operation of a route, which is given as "METHOD /path", or nil
// if there is none.
func operation(text *huma.OpenAPI, pattern string) *huma.Operation {
	method, path, _ := strings.Cut(pattern, " ")
	item := text.Paths[path]
	if item == nil {
		return nil
	}
	switch method {
	case http.MethodGet:
		return item.Get
	case http.MethodPut:
		return item.Put
	case http.MethodPost:
		return item.Post
	default:
		return item.Delete
	}
}
