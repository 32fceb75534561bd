package route

import (
	"fmt"
	"testing"
)

func TestModelsMeanServices(t *testing.T) {
	services := []Names{
		{Service: "a", Models: []string{"llama", "llama-*", "*"}},
		{Service: "b", Models: []string{"llama-3*", "x*y*z", "exact"}},
		{Service: "c", Models: []string{"exact", "org/model"}},
		{Service: "llama-3-c"},
	}
	for model, want := range map[string]string{
		"llama": "a", "llama-2": "a", "llama-3": "b", "llama-3-c": "llama-3-c", "c": "c", "exact": "b", "org/model": "c", "other": "a",
		"xyz": "b", "x1y2z": "b", "xz": "a", "x1y2z3": "a",
	} {
		if got, ok := ByModel(services, model); got != want || !ok {
			t.Errorf("%s: %s, want %s", model, got, want)
		}
	}
	if got, ok := ByModel(services[1:], "nothing"); ok {
		t.Error(got)
	}
	if got := fmt.Sprint(Listed(services)); got != "[exact llama llama-3-c org/model]" {
		t.Error(got)
	}
}

func TestHeadersThatNameUsers(t *testing.T) {
	for name, want := range map[string]bool{
		"User-Agent": false, "User_agent": true, "X-Forwarded-For": true, "X_forwarded_for": true, "X-Openwebui-User-Email": true, "Authorization": false,
		"Content-Type": false, "X-Stainless-Runtime": false, "Openai-Organization": false, "Remote-User": true, "X-Berth-Service": true, "Idempotency-Key": false, "Users": false,
	} {
		if NamesUser(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestPrivatePaths(t *testing.T) {
	own := []string{"/my/nap?level=1", "rest"}
	for path, want := range map[string]bool{
		"/sleep": true, "/prefix/sleep/": true, "//sleep": true, "/SLEEP": true, "/%73leep": true, "/sleepy": false, "/is_sleeping": false, "/a/my/nap": true, "/nap": false, "/rest": true,
		"/v1/load_model": true, "/models/unload": true, "/v1/chat/completions": false, "/": false, "/%zz": true, "/wake_up": true, "/release_memory_occupation": true,
		"/update_weights_from_disk": true, "/v1/init_weights_update_group": true, "/flush_cache": true, "/pause": true, "/weight_info": false,
	} {
		if Private(path, own) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
	if Private("/pause", nil) {
		t.Error("/pause of a program that cannot sleep")
	}
	for path, want := range map[string]bool{"/a.js": true, "/a/b.js": true, "/ws/1": true, "/a.css": false} {
		if Ignored(path, []string{"*.js", "/ws/*"}) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}
