package main

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	env := map[string]string{"NODE_NAME": "node-1", "POD_UID": "p1", "BERTH_DRA_CDI_DIR": "/run/cdi", "BERTH_DRA_ISOLATION": "env"}
	s, err := parse([]string{"--isolation", "vendor", "--listen", "127.0.0.1:9480"}, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if s.node != "node-1" || s.podUID != "p1" || s.cdiDir != "/run/cdi" || s.isolation != "vendor" || s.quarantine != "NoExecute" ||
		s.daemon != "unix:///run/berth/berth.sock" || s.listen != "127.0.0.1:9480" || s.plugins != "/var/lib/kubelet/plugins" {
		t.Errorf("%+v", s)
	}
	if dirs := s.cdiDirs(); !slices.Equal(dirs, []string{"/run/cdi", "/etc/cdi", "/var/run/cdi"}) {
		t.Errorf("%v", dirs)
	}
}

func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                                   "--node",
		"--node n --isolation strong":        "vendor or env",
		"--node n --quarantine-effect Evict": "NoExecute, NoSchedule or None",
		"--node n --log-level loud":          "debug, info, warn or error",
		"--node n --cdi-dir cdi":             "absolute",
		"--node n --kubelet-plugins plugins": "absolute",
		"--node n --listen 9480":             "such as :9480",
		"--node n serve":                     "unknown argument",
		"--node n --no-such-flag":            "no-such-flag",
	} {
		if _, err := parse(strings.Fields(args), func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
