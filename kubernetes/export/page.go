package export

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/berth-gpu/berth/api"
)

// Source has the contents of the pages.
type Source interface {
	Node() api.Node         // the driver's knowledge of its node
	Live() error            // why the driver does not work, or nil
	Ready() error           // why it cannot prepare claims, or nil
	DaemonUp() bool         // whether the daemon answers
	Claims() (int, []Claim) // the number of prepared claims, and their use
	Taints() []Taint        // those of the published devices
}

// Handler returns the pages of a driver: /metrics, /healthz, /readyz and /node. They are
// read-only.
func Handler(m *Metrics, s Source) http.Handler {
	m.registry.MustRegister(present{s})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", probe(s.Live))
	mux.HandleFunc("GET /readyz", probe(s.Ready))
	mux.HandleFunc("GET /node", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(s.Node())
	})
	return mux
}

// probe answers 200 and ok, or 503 and the error.
func probe(ask func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := ask(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(err.Error() + "\n"))
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	}
}
