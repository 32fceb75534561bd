package config

import (
	"slices"
	"strings"
	"testing"
)

// A text without secrets has every other setting, and can be read.
func TestWithoutSecrets(t *testing.T) {
	text := `gpu:
    temp_optimal: 61
hooks:
    pager: {url: "https://example.org/secret-a", secret: secret-b-secret-b, severity: warning}
    runner: {command: [notify, secret-c]}
services:
    chat: {priority: 3, command: [serve], user: ann, env: {KEY: secret-d, OTHER: secret-e}}
users:
    ann: {running_jobs: 3}
`
	clean, dropped, err := WithoutSecrets("config.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(clean), "secret") || strings.Contains(string(clean), "hooks") {
		t.Errorf("%s", clean)
	}
	for _, kept := range []string{"temp_optimal: 61", "running_jobs: 3", "priority: 3", "user: ann"} {
		if !strings.Contains(string(clean), kept) {
			t.Errorf("%q is missing in\n%s", kept, clean)
		}
	}
	if !slices.ContainsFunc(dropped, func(name string) bool { return strings.HasPrefix(name, "services.chat.env") }) || !slices.Contains(dropped, "hooks.pager.url") {
		t.Errorf("%v", dropped)
	}
	if _, err := ParseSaved("config.yaml", clean); err != nil {
		t.Error(err)
	}
	if _, _, err := WithoutSecrets("config.yaml", []byte("nonsense: [")); err == nil {
		t.Error("a text that cannot be read was taken")
	}
}
