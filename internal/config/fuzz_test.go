package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/config"
)

// possible checks what no accepted configuration may break.
func possible(t *testing.T, s *config.Settings) {
	t.Helper()
	g := s.Config.GPU
	for uuid := range g.Devices {
		if err := g.For(uuid).Validate(); err != nil {
			t.Errorf("device %s: %v", uuid, err)
		}
	}
	if err := g.Validate(); err != nil {
		t.Error(err)
	}
	if g.MemoryReserve < 0 || g.MonitorInterval < 1e8 || g.HistorySize < 1 || g.MemoryLimit.Or(1) < 1 || g.MaxPipelines.Or(1) < 1 {
		t.Errorf("impossible: %+v", g)
	}
	for name, service := range s.Config.Services {
		if low, ok := service.MinMemory.Get(); ok && service.MaxMemory.Or(low) < low {
			t.Errorf("service %s: %+v", name, service)
		}
	}
	if body, err := s.Config.Changeable(); err != nil {
		t.Error(err)
	} else if next, _, err := s.Change(body); err != nil || !cmp.Equal(next.All(), s.All()) {
		t.Errorf("%s sent back unchanged: %v", body, err)
	}
}

// explainedRefusal checks that a refusal says why.
func explainedRefusal(t *testing.T, err error) {
	t.Helper()
	refused := new(config.Error)
	if !errors.As(err, &refused) || len(refused.Complaints) == 0 || len(refused.Complaints) > 100 {
		t.Fatalf("refused with %v", err)
	}
	for _, c := range refused.Complaints {
		if c.Reason == "" {
			t.Errorf("no reason: %+v", c)
		}
	}
}

func FuzzParseYAML(f *testing.F) {
	for _, seed := range []string{
		everything, "", "gpu:", "gpu: {temp_optimal: 60, temp_normal: 50}", "gpu: &a\n  devices: *a\n", "a: &a [*a]",
		"gpu:\n  devices:\n    ? [a]\n    : {}\n", "gpu: !!binary x", "? gpu\n: {}", "%YAML 1.1\n---\ngpu: {}\n...\n", "<<: {gpu: {}}",
		"gpu: {memory_limit_mb: 1e3, monitor_interval: 0x1, history_size: 0o17, max_pipelines: 1_0}",
		"services: {a: {users: [~, {}]}}", "daemon: {listen: '[::1]:1', token: |\n  x\n}", "\xff\xfeg\x00", "gpu: {temp_optimal: 2001-01-01}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		layer, refused := config.ParseYAML("berth.yaml", text)
		if refused != nil {
			explainedRefusal(t, refused)
		}
		s, err := config.Merge(layer)
		switch {
		case err != nil:
			explainedRefusal(t, err)
		case refused != nil:
			t.Errorf("merged in spite of %v", refused)
		default:
			possible(t, s)
		}
	})
}

func FuzzChange(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"temp_optimal": 60}`, `{"temp_optimal": null, "devices": {"GPU-1": {"temp_normal": 66.5}, "GPU-2": null}}`,
		`{"memory_limit_mb": "4GiB", "monitor_interval": "500ms"}`, `{"temp_optimal": 60, "temp_optimal": 61}`, `{"a": [[{}]]}`,
		`{"history_size": 1e2, "max_pipelines": 1.0}`, `{"devices": {"\u0047PU": {}}}`, `{"devices": {"GPU:0/1": {"max_pipelines": 3}}}`,
		`{"services": {"a_b": {"users": ["x"]}, "c": null}, "hooks": {"h": {"command": ["x"]}}, "optimization": {"interval": "5m"}, "unknown_services": "refuse", "daemon": {}}`,
	} {
		f.Add([]byte(seed))
	}
	start, err := merge("gpu: {history_size: 100, devices: {GPU-1: {temp_optimal: 50}}}", "gpu: {memory_limit_mb: 5}", []string{"BERTH_GPU_MEMORY_NORMAL=80"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	before := start.All()
	f.Fuzz(func(t *testing.T, body []byte) {
		next, saved, err := start.Change(body)
		if !cmp.Equal(before, start.All()) {
			t.Fatal("the settings changed under their holder")
		}
		if err != nil {
			explainedRefusal(t, err)
			return
		}
		possible(t, next)
		again, err := merge("gpu: {history_size: 100, devices: {GPU-1: {temp_optimal: 50}}}", string(saved), []string{"BERTH_GPU_MEMORY_NORMAL=80"}, nil)
		if err != nil || !cmp.Equal(next.All(), again.All()) {
			t.Errorf("after a restart with %q: %v", saved, err)
		}
	})
}

// Whatever the environment holds, it sets what can be set, or is refused with a
// reason.
func FuzzParseEnv(f *testing.F) {
	for _, seed := range []string{
		"BERTH_GPU_TEMP_OPTIMAL=60\nBERTH_GPU_MEMORY_LIMIT_MB=4GiB", "BERTH_SERVICES_A=1\nBERTH_PORT_80_TCP=x", "BERTH_URL=x\nBERTH_\n=\nBERTH_GPU_HISTORY_SIZE=1e9",
		"BERTH_DAEMON_LISTEN=[::1]:0\nBERTH_LISTEN=127.0.0.1:1", "BERTH_GPU_MONITOR_INTERVAL=-1s\nBERTH_GPU_MONITOR_INTERVAL=1s", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		layer, refused := config.ParseEnv(strings.Split(text, "\n"))
		if refused != nil {
			explainedRefusal(t, refused)
		}
		s, err := config.Merge(layer)
		switch {
		case err != nil:
			explainedRefusal(t, err)
		case refused != nil:
			t.Errorf("merged in spite of %v", refused)
		default:
			possible(t, s)
		}
	})
}
