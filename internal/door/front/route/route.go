// Package route tells which service an HTTP request is for.
//
// The service stands in the path, in a header or in the name of the host, or the request
// names a model: in its query, in its JSON object or in a field of its form. Of reads
// everything but the body.
//
// Pure: no clock, no I/O.
package route

import (
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Header is the header with which a request names its service.
const Header = "X-Berth-Service"

// prefix begins the paths that name a service.
const prefix = "/services/"

// Request is a request without its body.
type Request struct {
	Path     string // as it was sent, with its escapes
	Query    url.Values
	Host     string // perhaps with a port
	Service  string // the value of Header
	Type     string // Content-Type
	Encoding string // Content-Encoding
	Body     bool   // whether there is one
}

// Way says where a request goes. It has Service, Model, or Find.
type Way struct {
	Path    string // for the server, with its escapes
	Service string // the service that the request names
	Model   string // the model that the query names
	Find    Where  // where in the body the model stands
	// Boundary separates the fields of a form.
	Boundary string
}

// Where is a part of a request in which a model can be named.
type Where int

// The parts. The zero value means none.
const (
	Nowhere Where = iota
	InJSON
	InForm
)

// Of reads a request. The error says to its caller what is wrong.
func Of(r Request, services []Names) (Way, *Refusal) {
	if refusal := checkPath(r.Path); refusal != nil {
		return Way{}, refusal
	}
	if rest, named := strings.CutPrefix(r.Path, prefix); named {
		escaped, rest, _ := strings.Cut(rest, "/")
		name, err := url.PathUnescape(escaped)
		if err != nil || name == "" {
			return Way{}, refuse(400, "bad_path", "The path does not name a service: write %sNAME/ and the path of the server.", prefix)
		}
		return Way{Path: "/" + rest, Service: name}, nil
	}
	way := Way{Path: r.Path}
	if r.Service != "" {
		way.Service = r.Service
		return way, nil
	}
	if name, ok := ByHost(services, r.Host); ok {
		way.Service = name
		return way, nil
	}
	if way.Model = r.Query.Get("model"); way.Model != "" {
		return way, nil
	}
	if !r.Body {
		return Way{}, refuse(404, "no_service", "This request names no service. Put a model into its body or ?model= into its address, or ask for %sNAME%s. /v1/models lists the models.", prefix, r.Path)
	}
	if r.Encoding != "" && !strings.EqualFold(r.Encoding, "identity") {
		return Way{}, refuse(415, "compressed", "The model cannot be read in a compressed body. Send it without Content-Encoding, or name the service: %sNAME%s, or the header %s.", prefix, r.Path, Header)
	}
	way.Find = InJSON
	if kind, parameters, err := mime.ParseMediaType(r.Type); err == nil && kind == "multipart/form-data" {
		way.Find, way.Boundary = InForm, parameters["boundary"]
		if way.Boundary == "" {
			return Way{}, refuse(400, "bad_form", "The form has no boundary in its Content-Type.")
		}
	}
	return way, nil
}

// checkPath refuses paths that servers could read in another way than berth does.
func checkPath(escaped string) *Refusal {
	decoded, err := url.PathUnescape(escaped)
	if err != nil || !strings.HasPrefix(escaped, "/") || strings.ContainsAny(decoded, "\\\x00\r\n") {
		return refuse(400, "bad_path", "The path of the request cannot be read.")
	}
	if parts := strings.Split(decoded, "/"); slices.Contains(parts, "..") || slices.Contains(parts, ".") {
		return refuse(400, "bad_path", "The path of the request has . or .. in it: write it without.")
	}
	return nil
}

// Private reports whether a path ends like one of a server's own calls for sleep, load and
// unload, or for other weights, caches or pauses, which change it for everybody who uses it,
// or like one of more. Berth makes those of the first kind, and nobody the others.
func Private(escaped string, more []string) bool {
	decoded, err := url.PathUnescape(escaped)
	if err != nil {
		return true
	}
	asked := strings.ToLower(path.Clean("/" + decoded))
	for _, own := range more {
		own, _, _ = strings.Cut(own, "?")
		if strings.HasSuffix(asked, strings.ToLower(path.Clean("/"+own))) {
			return true
		}
	}
	last := asked[strings.LastIndexByte(asked, '/')+1:]
	switch last {
	// These are the calls of vLLM, SGLang, Aphrodite, TabbyAPI and llama.cpp.
	case "sleep", "wake_up", "collective_rpc", "reset_prefix_cache", "release_memory_occupation", "resume_memory_occupation",
		"load_model", "unload_model", "load", "unload",
		"reset_mm_cache", "reset_encoder_cache", "flush_cache", "clear_hicache_storage_backend", "pause_generation", "continue_generation",
		"abort_request", "abort_requests", "scale_elastic_ep", "slow_down", "set_internal_state", "freeze_gc", "configure_logging", "start_profile", "stop_profile":
		return true
	case "pause", "resume": // other programs have these, too, but those that sleep are servers of models
		return len(more) > 0
	}
	return slices.ContainsFunc([]string{"init_weight", "start_weight", "update_weight", "finish_weight", "reload_weight", "destroy_weight"}, func(begin string) bool {
		return strings.HasPrefix(last, begin)
	})
}

// Ignored reports whether a path matches one of these patterns, in which * stands for any
// characters.
func Ignored(escaped string, patterns []string) bool {
	decoded, err := url.PathUnescape(escaped)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, decoded) })
}

// NamesUser reports whether a header of a request says who its user is, where it came
// from, or something else that only a proxy may say. Servers behind a proxy believe such
// headers. Some take _ in a name for -.
func NamesUser(header string) bool {
	name := strings.ToLower(strings.ReplaceAll(header, "_", "-"))
	if name == "user-agent" {
		return strings.Contains(header, "_")
	}
	for _, begin := range []string{
		"x-forwarded-", "x-auth-request-", "x-berth-", "x-amzn-oidc-", "x-ms-client-principal", "cf-access-", "cf-connecting-",
		"remote-", "x-remote-", "x-consumer-", "x-authentik-", "x-authenticated-", "x-webauth-", "x-original-", "x-rewrite-", "x-goog-authenticated-", "x-goog-iap-",
	} {
		if strings.HasPrefix(name, begin) {
			return true
		}
	}
	return slices.Contains([]string{"forwarded", "x-real-ip", "x-client-ip", "true-client-ip", "x-http-method-override"}, name) ||
		slices.ContainsFunc(strings.Split(name, "-"), func(word string) bool {
			return slices.Contains([]string{"user", "userid", "username", "email", "groups"}, word)
		})
}
