package view

import (
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

func somePast() api.PastLeases {
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	return api.PastLeases{Leases: []api.PastLease{
		{ID: "embedder-1", Holder: api.Holder{Service: "embedder", User: "anna"}, Granted: at(2 * time.Hour), Ended: at(time.Minute), How: "released", Peak: 3000, Energy: gpu.Some[gpu.Joules](1.8e6),
			Parts: []api.LeasePart{{GPU: "GPU-0", Memory: 4096}}},
		{ID: "train-7", Holder: api.Holder{Name: "train.py", User: "bob"}, Granted: at(26 * time.Hour), Ended: at(25 * time.Hour), How: "revoked", Why: "it used too much", Peak: 9000,
			Parts: []api.LeasePart{{GPU: "GPU-0", Memory: 8192, Slots: 1}, {GPU: "GPU-gone", Memory: 8192, Slots: 1}}},
		{ID: "slot", Holder: api.Holder{User: "another user"}, Granted: at(72 * time.Hour), Ended: at(70 * time.Hour), How: "expired",
			Parts: []api.LeasePart{{GPU: "GPU-1", Slots: 1}}},
	}}
}
