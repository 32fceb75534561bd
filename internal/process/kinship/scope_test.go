package kinship

import (
	"strings"
	"testing"
)

const podName = "pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"

func TestMayScope(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for name, want := range map[string]bool{
		podName: true, strings.ReplaceAll(podName, "-", "_"): true, "kubepods-burstable-" + podName + ".slice": true,
		id: true, "docker-" + id: true, "cri-containerd-" + id + ".scope": true, "libpod-" + id + ".scope": true,
		"embedder.service": true, "run-u12.scope": true, "job@7.service": true,
		"": false, "pod": false, "pod1": false, "podman": false, "kubepods": false, "kubepods.slice": false,
		"system.slice": false, "user.slice": false, "user-1000.slice": false, "system": false, "-.slice": false,
		"user@1000.service": false, "user@1000": false, "session-3.scope": false, "session-3": false, "init.scope": false, "init": false,
		"docker": false, id[:12]: false, id + ".slice": false, "session-" + id + ".scope": false,
		"/": false, "..": false, "embedder": false,
	} {
		if got := MayScope(name); got != want {
			t.Errorf("a scope may have %q: %v", name, got)
		}
	}
}

// TestActsOn has what operators name, and what users and programs build to get
// their processes, or those of others, into it.
func TestActsOn(t *testing.T) {
	id, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for _, c := range []struct {
		path, name string
		unit       string
		want       bool
	}{
		{"/kubepods.slice/kubepods-" + strings.ReplaceAll(podName, "-", "_") + ".slice/cri-containerd-" + id + ".scope", podName, "", true},
		{"/kubepods/" + podName + "/" + id, id, "", true},
		{"/system.slice/docker-" + id + ".scope", "docker-" + id, "", true},
		{"/docker/" + id, id, "", true},
		{"/system.slice/embedder.service", "embedder.service", "embedder.service", true},
		{"/system.slice/embedder.service/worker", "embedder.service", "embedder.service", true},
		{"/system.slice/run-u1.scope", "run-u1.scope", "run-u1.scope", true},

		{"/system.slice/cron.service", "system.slice", "", false}, // as an older journal has it
		{"/system.slice/cron.service", "system.scope", "", false}, // a twin by its name
		{"/system.slice/cron.service", "system", "", false},
		{"/user.slice/user-1.slice/session-3.scope", "session-3.scope", "", false},
		{"/user.slice/user-1.slice/user@1.service/app.slice/a.service", "user@1.service", "", false},
		{"/init.scope", "init.scope", "", false},
		{"/kubepods/" + podName + "/c", "kubepods", "", false},

		// What users make below their service manager, and programs below their own
		// control group.
		{"/user.slice/user-1.slice/user@1.service/app.slice/embedder.service", "embedder.service", "", false},
		{"/user.slice/user-1.slice/user@1.service/" + id, id, "", false},
		{"/user.slice/user-1.slice/user@1.service/kubepods/" + podName, podName, "", false},
		{"/kubepods/" + podName + "/c/embedder.service", "embedder.service", "", false},
		{"/system.slice/cron.service/embedder.service", "embedder.service", "", false},
		{"/docker/" + other + "/x/" + id, id, "", false},
	} {
		f := Facts{Cgroups: []string{c.path}}
		if unit, may := f.ActsOn([]string{c.name}); may != c.want || unit != c.unit {
			t.Errorf("for the scope %q, berth acts on what is in %s: %v, by %q", c.name, c.path, may, unit)
		}
		older := !MayScope(c.name) || c.name == "system.scope" // what an older journal has goes on to count
		if counts := f.inScope([]string{c.name}); counts != c.want && !older {
			t.Errorf("for the scope %q, what is in %s counts: %v", c.name, c.path, counts)
		}
	}
}
