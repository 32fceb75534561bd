package wire

import (
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/quickjson"
)

// The bodies of frames, and what is asked for most over HTTP. They are the types of package api with their own encoding:
// Append writes JSON that decodes to the same value as the output of encoding/json, and
// Read reads what Append wrote. Both take a fraction of the time, and every call on the
// lease stream goes through them: with encoding/json and its checks, an acquire and a
// release take 1.3 to 1.9 times as long.
//
// Read takes a body only if nothing in it could be refused for its form; the policy of a
// request alone may be one that does not exist. It returns false for everything else,
// right or wrong, and encoding/json finds out which.
type (
	RequestBody api.LeaseRequest
	ReleaseBody api.Release
	RenewalBody api.Renewal
	LeaseBody   api.Lease
	EndedBody   api.Ended
	LeasesBody  api.Leases

	StatusBody    api.StatusAll
	AvailableBody api.Available
)

// inLease has the structs in a lease that nearly every lease has, or what a launcher gets.
var inLease = []any{api.Lease{}, api.Holder{}, api.LeasePart{}, api.Launch{}, gpu.Device{}, gpu.Link{}}

// inList has the other structs in a list of leases and waiting requests.
var inList = []any{api.Waiting{}, api.Estimate{}, api.Belonging{}, api.Ancestor{}}

// inStatus has the structs in the status of devices.
var inStatus = []any{
	api.Status{}, gpu.Device{}, gpu.Link{}, api.Outlook{}, api.ThresholdForecast{}, gpu.Sample{}, gpu.Process{}, api.Slots{}, api.Trust{}, api.Drain{},
	api.Throttling{}, api.DeviceLease{}, api.Holder{}, api.Curves{}, api.Utilization{}, api.Machine{}, api.Need{},
}

// The order of some fields on the stream is older than that in package api.
var (
	requests = quickjson.Codec[RequestBody]{After: map[string]string{"isolation": "enforce"}}
	releases quickjson.Codec[ReleaseBody]
	renewals quickjson.Codec[RenewalBody]
	leases   = quickjson.Codec[LeaseBody]{Inline: inLease, After: movedInLease}
	ends     = quickjson.Codec[EndedBody]{Inline: inLease, After: movedInLease}
	lists    = quickjson.Codec[LeasesBody]{Inline: slices.Concat(inLease, inList)}

	statuses  = quickjson.Codec[StatusBody]{Inline: inStatus, Loose: true}
	available = quickjson.Codec[AvailableBody]{Inline: []any{api.DeviceAvailable{}}, Loose: true}

	movedInLease = map[string]string{"isolated_by": "enforced_by", "energy_joules": "heir_pid", "waiting": "processes"}
)

// Append appends the request to dst as JSON.
func (r *RequestBody) Append(dst []byte) []byte { return requests.Append(dst, r) }

// Read reads a request.
func (r *RequestBody) Read(data []byte) bool { return requests.Read(data, r) }

// Append appends the release to dst as JSON.
func (r *ReleaseBody) Append(dst []byte) []byte { return releases.Append(dst, r) }

// Read reads a release.
func (r *ReleaseBody) Read(data []byte) bool { return releases.Read(data, r) }

// Append appends the renewal to dst as JSON.
func (r *RenewalBody) Append(dst []byte) []byte { return renewals.Append(dst, r) }

// Read reads a renewal.
func (r *RenewalBody) Read(data []byte) bool { return renewals.Read(data, r) }

// Append appends the lease to dst as JSON.
func (l *LeaseBody) Append(dst []byte) []byte { return leases.Append(dst, l) }

// Read reads a lease.
func (l *LeaseBody) Read(data []byte) bool { return leases.Read(data, l) }

// Append appends the end of a lease to dst as JSON.
func (e *EndedBody) Append(dst []byte) []byte { return ends.Append(dst, e) }

// Read reads the end of a lease.
func (e *EndedBody) Read(data []byte) bool { return ends.Read(data, e) }

// Append appends the list to dst as JSON.
func (l *LeasesBody) Append(dst []byte) []byte { return lists.Append(dst, l) }

// Read reads a list.
func (l *LeasesBody) Read(data []byte) bool { return lists.Read(data, l) }

// Append appends the status of devices to dst as JSON.
func (s *StatusBody) Append(dst []byte) []byte { return statuses.Append(dst, s) }

// Read reads the status of devices.
func (s *StatusBody) Read(data []byte) bool { return statuses.Read(data, s) }

// Append appends what can be leased to dst as JSON.
func (a *AvailableBody) Append(dst []byte) []byte { return available.Append(dst, a) }

// Read reads what can be leased.
func (a *AvailableBody) Read(data []byte) bool { return available.Read(data, a) }
