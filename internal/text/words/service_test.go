package words

import "testing"

func TestService(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "embedder": "embedder", "embedding-service": "embedding-service", "embedding_service": "embedding-service", "a_b-c__d": "a-b-c--d", "Größe_1": "Größe-1",
	} {
		if got := Service(name); got != want || Service(got) != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
