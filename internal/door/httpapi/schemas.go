package httpapi

import (
	"github.com/berth-gpu/berth/internal/lease"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/gpu"
)

// nameOptionals makes the schema generator describe an optional value by its type.
func nameOptionals(r huma.Registry) {
	see[gpu.Celsius, float64](r)
	see[gpu.Percent, float64](r)
	see[gpu.Watts, float64](r)
	see[gpu.Joules, float64](r)
	see[gpu.MHz, float64](r)
	see[float64, float64](r)
	see[gpu.MiB, int64](r)
	see[int64, int64](r)
	see[int, int](r)
	r.RegisterTypeAlias(reflect.TypeFor[gpu.Ref](), reflect.TypeFor[deviceRef]())
}

// deviceRef describes a gpu.Ref: text, or an index as a number.
type deviceRef string

// Schema returns the description of a reference to a device.
func (deviceRef) Schema(huma.Registry) *huma.Schema {
	longest, least, most := gpu.Ref("").MaxLength(), 0.0, 9999.0
	return &huma.Schema{AnyOf: []*huma.Schema{
		{Type: huma.TypeString, MaxLength: &longest},
		{Type: huma.TypeInteger, Minimum: &least, Maximum: &most},
	}}
}

func see[T, Plain any](r huma.Registry) {
	r.RegisterTypeAlias(reflect.TypeFor[gpu.Opt[T]](), reflect.TypeFor[Plain]())
}

// limitNames limits the names of control groups: no tag can do it for the items of a
// list.
func limitNames(text *huma.OpenAPI, most int) {
	schemas := text.Components.Schemas.Map()
	for _, list := range []*huma.Schema{
		schemas["LeaseRequest"].Properties["scope"], schemas["Rescope"].Properties["add"], schemas["Rescope"].Properties["remove"],
	} {
		list.Items.MaxLength = &most
		list.PrecomputeMessages()
	}
}

// limitJobs limits what the tags of a job cannot: the words of its lists, and numbers that
// may be absent.
func limitJobs(text *huma.OpenAPI) {
	schemas := text.Components.Schemas.Map()
	job, param := schemas["JobRequest"].Properties, schemas["JobParam"].Properties
	for _, list := range []struct {
		of   *huma.Schema
		most int
	}{{job["command"], 128 << 10}, {job["environment"], 128 << 10}, {job["after"], 128}, {job["after_any"], 128}, {job["after_failed"], 128}, {param["values"], 4096}} {
		list.of.Items.MaxLength = &list.most
		list.of.PrecomputeMessages()
	}
	for _, number := range []struct {
		of   *huma.Schema
		most float64
	}{{job["umask"], 0o777}, {job["signal_seconds"], 3600}, {schemas["JobChange"].Properties["priority"], lease.MaxPriority}} {
		number.of.Maximum = &number.most
		number.of.PrecomputeMessages()
	}
}

// answerStanding documents that an operation that makes a lease may answer with an
// existing one.
func answerStanding(text *huma.OpenAPI, patterns ...string) {
	for _, pattern := range patterns {
		op := operation(text, pattern)
		stands := *op.Responses["201"]
		stands.Description = "The lease stands already: the request was made again. It has stood."
		op.Responses["200"] = &stands
	}
}

// listPolicies lists the names of the policies in the schemas of requests.
func listPolicies(text *huma.OpenAPI, names []string) {
	for _, body := range []string{"LeaseRequest", "Allocate"} {
		policy := text.Components.Schemas.Map()[body].Properties["policy"]
		for _, name := range names {
			policy.Enum = append(policy.Enum, name)
		}
		policy.PrecomputeMessages()
	}
}
