package view

import (
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

func someReport() api.Report {
	return api.Report{
		GPUs: []api.DeviceReport{
			{Index: 0, Name: "NVIDIA H200", State: gpu.Optimal, Covers: 600, Utilization: gpu.Some[gpu.Percent](57), Hottest: gpu.Some[gpu.Celsius](61), Power: gpu.Some[gpu.Watts](420),
				Total: 143771, Leased: 61440, Measured: 40000, Available: 81000, Leases: 3},
			{Index: 1, Name: "NVIDIA H200", State: gpu.Unavailable, Total: 143771},
		},
		Services: []api.ServiceReport{
			{Service: "embedder", Users: []string{"anna", "bob"}, Leases: 2, Leased: 40960, Measured: 41000, Waiting: 1, Past: 12, PastPeak: 20000},
			{Users: []string{"carol"}, Leases: 1, Leased: 20480, Slots: 1},
		},
		Energy: api.Energy{
			Price: gpu.Some(0.32), Currency: "EUR",
			GPUs: []api.DeviceEnergy{
				{Index: 0, Name: "NVIDIA H200", Since: now.Add(-240 * time.Hour), Total: 9e8, Leases: 6e8, Others: 1e8, Idle: 2e8},
				{Index: 1, Name: "NVIDIA H200", Since: now, Unmeasured: 7200},
			},
			Used: []api.EnergyUse{{User: "anna", Service: "embedder", Name: "embed.py\x1b[31m", Energy: 5e8}, {User: "carol", Energy: 1e8}, {Energy: 350}},
		},
		Measurements: []api.Measured{{User: "anna", Name: "embed.py", Runs: 12, Last: now.Add(-time.Hour), Asked: 40960, Peak: 20000, Next: 22016, Seconds: 90, Drew: gpu.Some[gpu.Watts](312)}},
		Advice: []api.Advice{
			{Code: "unused", Text: "big has leased 20 GiB on GPU 0 for 3 h, and nothing under it uses the GPU.", Command: "berth release big"},
			{Code: "oversized", Text: "evil\x1b[31m leases 40 GiB on GPU 0 and uses 1 GiB of it: it could lease less."},
		},
	}
}
