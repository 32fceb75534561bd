package export_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/export"
)

// still is a driver whose daemon does not answer.
type still struct{}

func (still) Node() api.Node {
	return api.Node{Name: "node-1", Down: "it is away", Leases: []api.PodLease{}}
}
func (still) Live() error    { return nil }
func (still) Ready() error   { return errors.New("the daemon does not answer") }
func (still) DaemonUp() bool { return false }
func (still) Claims() (int, []export.Claim) {
	return 2, []export.Claim{{Namespace: "shop", Pod: "p", Name: "c", GPU: "GPU-1", Leased: 4096, Measured: gpu.Some(gpu.MiB(100))}, {Namespace: "shop", Pod: "q", Name: "d", GPU: "GPU-1", Leased: 1},
		{Namespace: "shop", Pod: "q", Name: "d", GPU: "GPU-1", Leased: 2}} // made again, while the first lease stands
}
func (still) Taints() []export.Taint {
	return []export.Taint{{Device: "gpu-1", Key: "gpu.berth.dev/daemon", Effect: "NoSchedule"}}
}

func TestPages(t *testing.T) {
	m := export.New()
	m.Prepared("prepared", 30*time.Millisecond)
	m.Refused("insufficient_memory")
	m.Published()
	m.Reconciled("ended")
	m.ClusterFailed("claim_status", apierrors.NewForbidden(schema.GroupResource{}, "c", nil))
	m.ClusterFailed("claim_status", errors.New("no answer"))
	server := httptest.NewServer(export.Handler(m, still{}))
	defer server.Close()
	read := func(method, path string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return got.StatusCode, string(text)
	}
	_, metrics := read("GET", "/metrics")
	for _, want := range []string{
		`berth_dra_prepare_seconds_count{result="prepared"} 1`, `berth_dra_refusals_total{code="insufficient_memory"} 1`,
		`berth_dra_publishes_total 1`, `berth_dra_reconciled_total{what="ended"} 1`, `berth_dra_claims 2`, `berth_dra_daemon_up 0`,
		`berth_dra_taints{device="gpu-1",effect="NoSchedule",key="gpu.berth.dev/daemon"} 1`,
		`berth_dra_claim_memory_mb{claim="c",gpu="GPU-1",kind="leased",namespace="shop",pod="p"} 4096`,
		`berth_dra_claim_memory_mb{claim="c",gpu="GPU-1",kind="measured",namespace="shop",pod="p"} 100`,
		`berth_dra_claim_memory_mb{claim="d",gpu="GPU-1",kind="leased",namespace="shop",pod="q"} 3`,
		`berth_dra_api_errors_total{reason="Forbidden",what="claim_status"} 1`, `berth_dra_api_errors_total{reason="NoAnswer",what="claim_status"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	if strings.Contains(metrics, `kind="measured",namespace="shop",pod="q"`) {
		t.Error("what was not measured is shown")
	}
	if code, text := read("GET", "/healthz"); code != 200 || text != "ok\n" {
		t.Error(code, text)
	}
	if code, text := read("GET", "/readyz"); code != 503 || text != "the daemon does not answer\n" {
		t.Error(code, text)
	}
	var n api.Node
	if code, text := read("GET", "/node"); code != 200 || json.Unmarshal([]byte(text), &n) != nil || n.Name != "node-1" || n.Down != "it is away" {
		t.Error(code, text)
	}
	if code, _ := read("POST", "/node"); code != http.StatusMethodNotAllowed {
		t.Error("the page of the node can be written:", code)
	}
}
