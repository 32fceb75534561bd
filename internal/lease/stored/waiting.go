package stored

import (
	"encoding/json"
	"fmt"
)

// WaitingVersion is the newest version of an entry about a waiting request that this
// berth reads and writes. An entry of a later version is read as far as it is known:
// at worst, a request loses its place after a restart.
const WaitingVersion = 1

// Waiting is one entry of the log of waiting requests: a request that began to wait, or
// with Gone one that waits no longer. Times are nanoseconds since 1970, durations are
// nanoseconds. The log has what the queue goes by, so that the request can stand at its
// place after a restart until its client asks again.
type Waiting struct {
	Version int    `json:"v"`
	Gone    bool   `json:"gone,omitempty"` // only ID, UID, User and Run are set
	ID      string `json:"id"`
	UID     int    `json:"uid"`
	User    string `json:"user,omitempty"`
	Run     Run    `json:"run,omitzero"`

	Parent string `json:"parent,omitempty"`
	// ParentFence is 0 if an earlier berth wrote the entry.
	ParentFence uint64 `json:"parent_fence,omitempty"`

	Service   string   `json:"service,omitempty"`
	Name      string   `json:"name,omitempty"`
	PID       int      `json:"pid,omitempty"`
	Start     uint64   `json:"start,omitempty"`
	Boot      string   `json:"boot,omitempty"`
	Binding   string   `json:"binding,omitempty"`
	TTL       int64    `json:"ttl_ns,omitempty"`
	TimeLimit int64    `json:"time_limit_ns,omitempty"`
	GPUs      int      `json:"gpus,omitempty"`
	Memory    int64    `json:"memory_mb,omitempty"` // MiB
	Slots     int      `json:"slots,omitempty"`
	Exclusive bool     `json:"exclusive,omitempty"`
	Least     int64    `json:"least_mb,omitempty"` // MiB, of an exclusive request
	Where     string   `json:"where,omitempty"`
	Only      []string `json:"only,omitempty"`
	Preferred string   `json:"preferred,omitempty"`
	Policy    string   `json:"policy,omitempty"`
	Priority  int      `json:"priority,omitempty"`
	Groups    []string `json:"groups,omitempty"`
	Unit      string   `json:"unit,omitempty"`
	Requested int64    `json:"requested_ns,omitempty"`
	Arrival   uint64   `json:"arrival,omitempty"` // orders requests of the same time
	Deadline  int64    `json:"deadline_ns,omitempty"`
}

// DecodeWaiting reads an entry of the log of waiting requests.
func DecodeWaiting(data []byte) (w Waiting, err error) {
	if err = json.Unmarshal(data, &w); err != nil {
		return w, fmt.Errorf("entry about a waiting request: %w", err)
	}
	if w.Version < 1 || w.ID == "" {
		return w, fmt.Errorf("entry about a waiting request has version %d and id %q", w.Version, w.ID)
	}
	return w, nil
}
