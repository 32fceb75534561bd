package api

import "github.com/berth-gpu/berth/gpu"

// Operations says how much work a service has done since its last report.
type Operations struct {
	Count     int64     `json:"count,omitempty" minimum:"0" maximum:"100000000" doc:"How many operations. Default: as many as there are latencies." example:"120"`
	Seconds   float64   `json:"seconds,omitempty" minimum:"0" maximum:"8640000000000" doc:"How long the operations took, added up. The daemon counts each of them with the average. Default: not known, so only count is counted." example:"3.4"`
	Latencies []float64 `json:"latencies,omitempty" maxItems:"10000" doc:"How long each operation took, in seconds, at most a day; instead of count and seconds."`
	GPU       gpu.Ref   `json:"gpu,omitempty" maxLength:"128" doc:"Index or UUID of the device that did the work. Default: the device of the service's leases, if there is only one."`
}

// Counted says what the daemon has counted of a report.
type Counted struct {
	Service string `json:"service"`
	Count   int64  `json:"count"`
	GPU     string `json:"gpu,omitempty" doc:"The device that the operations count for. Absent if the service has no lease on the device that was named, or none was named and it has leases on several."`
}
