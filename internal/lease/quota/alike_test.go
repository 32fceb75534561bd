package quota

import (
	"errors"
	"strings"
	"testing"
)

func TestNamesThatLookLikeAConfiguredOne(t *testing.T) {
	services := map[string]Served{"embedder": {}, "llm-70b": {}, "Modem": {}, "pair-a": {}, "pair-A": {}}
	s := Settings{Services: services, Alike: Alike(services)}
	for asked, like := range map[string]string{
		"": "", "embedder": "", "llm-70b": "", "Modem": "", "pair-a": "", "pair-A": "", // their own
		"embedders": "", "embed-der": "", "embed der": "", "llm-7b": "", "reranker": "", "模型": "", "größe": "", "embedder模型": "", "модель": "", "llm-70": "",

		"Embedder": "embedder", "EMBEDDER": "embedder", "modem": "Modem", "LLM_70B": "llm-70b",
		"embеdder": "embedder", // Cyrillic е
		"еmЬеԁԁег": "embedder", // nearly all Cyrillic
		"ΕΜΒΕDDΕR": "embedder", // Greek capitals
		"ｅｍｂｅｄｄｅｒ": "embedder", "𝐞mbedd𝓮r": "embedder", "ⓔmbedder": "embedder",
		"émbëddér": "embedder", "e\u0301mbedder": "embedder",
		"I1m-7ob": "llm-70b", "llm–70b": "llm-70b", "llm−70b": "llm-70b", "lIm‿70b": "llm-70b", "llm-7Οb": "llm-70b", "іӏm-70b": "llm-70b",
		"modern": "Modem", "PAIR–A": "pair-A",
	} {
		err := s.Knows(asked)
		if (err != nil) != (like != "") || err != nil && (!errors.Is(err, ErrAlike) || !strings.Contains(err.Error(), "configured service "+like+" ")) {
			t.Errorf("%q: %v, want one that looks like %q", asked, err, like)
		}
	}
	s.KnownOnly = true
	if err := s.Knows("reranker"); !errors.Is(err, ErrService) {
		t.Errorf("a service that is not configured: %v", err)
	}
	if err := (&Settings{}).Knows("Embedder"); err != nil {
		t.Errorf("without services: %v", err)
	}
}

// The names of configured services are ASCII, so that no letter may stand for two
// of them.
func TestLookalikesAreUnambiguous(t *testing.T) {
	for r, c := range lookalikes {
		if r < 0x80 || plainest(c) != skeleton(string(r))[0] || len(skeleton(string(r))) != 1 {
			t.Errorf("%q stands for %q, and its skeleton is %q", r, c, skeleton(string(r)))
		}
	}
}

func BenchmarkKnows(b *testing.B) {
	services := map[string]Served{"embedder": {}, "llm-70b": {}}
	for name, s := range map[string]Settings{"none configured": {}, "some configured": {Services: services, Alike: Alike(services)}} {
		for _, asked := range []string{"embedder", "another-service"} {
			b.Run(name+"/"+asked, func(b *testing.B) {
				for b.Loop() {
					if err := s.Knows(asked); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
