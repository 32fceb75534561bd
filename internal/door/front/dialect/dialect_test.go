package dialect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestFinder(t *testing.T) {
	for text, want := range map[string]string{
		`{"model":"a"}`: "a",
		` { "messages" : [ {"role":"user","content":"\"model\":\"x\""} ] , "model" : "a/b:c" }`: "a/b:c",
		`{"a":{"model":"x"},"model":"b"}`:                        "b",
		`{"a":["model","x"],"b":"model","model":"b"}`:            "b",
		`{"mod\u0065l":"\u0061\n"}`:                              "a\n",
		`{"a\\":"}","model":"b"}`:                                "b",
		`{"a":1.5e3,"b":true,"c":null,"model":"b","model":"c"}`:  "b",
		`{"` + strings.Repeat("k", 600) + `":"v","model":"b"}`:   "b",
		`{"` + strings.Repeat("k", 600) + `model":"v"}`:          "",
		`{"model":"` + strings.Repeat("m", LongestName) + `"}`:   strings.Repeat("m", LongestName),
		`{"model":"` + strings.Repeat("m", LongestName+1) + `"}`: "",
		`{"model":""}`:                      "",
		`{"model":null,"model":"a"}`:        "",
		`{"model":["a"]}`:                   "",
		`{"model":{"model":"a"}}`:           "",
		`["model","a"]`:                     "",
		`"model"`:                           "",
		`{}`:                                "",
		``:                                  "",
		`{"model"`:                          "",
		`{"model":"a`:                       "",
		`{"a":"b"}{"model":"a"}`:            "",
		`{"a" "model":"a"}`:                 "",
		`{model:"a"}`:                       "",
		`{"x":}],"model":"a"}`:              "",
		strings.Repeat("[", 100000):         "",
		`{"a":` + strings.Repeat("{", 1000): "",
	} {
		for _, size := range []int{1, 3, len(text) + 1} {
			var f Finder
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				if got, err := f.Write([]byte(rest[:n])); got != n || err != nil {
					t.Fatal(got, err)
				}
				rest = rest[n:]
			}
			if name, ok := f.Name(); name != want || ok != (want != "") {
				t.Errorf("%.80s in pieces of %d: %q %v, want %q", text, size, name, ok, want)
			}
		}
	}
}

// Where encoding/json finds a model first, Finder finds the same.
func FuzzFinder(f *testing.F) {
	f.Add([]byte(`{"messages":[{"content":"\"}{"}],"model":"a"}`))
	f.Add([]byte(`{"model":"a","b":[[{}]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var finder Finder
		_, _ = finder.Write(text)
		name, found := finder.Name()
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) != nil || strings.Count(string(text), "odel") > 1 || strings.Contains(string(text), `\`) {
			return
		}
		var want string
		is := json.Unmarshal(object["model"], &want) == nil && want != "" && string(object["model"]) != "null" && len(want) <= LongestName/6
		if is && (!found || name != want) {
			t.Errorf("%q: found %q %v, want %q", text, name, found, want)
		}
	})
}

func TestTokens(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for text, want := range map[string][2]uint64{
		`{"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,"details":{"a":[1]}}}`:                                                   {3, 5},
		`{"content":"` + long + `","usage" : {"prompt_tokens":3,"completion_tokens":5}}`:                                                             {3, 5},
		`{"usage":{"prompt_tokens":3,"completion_tokens":5},"content":"` + long + `"}`:                                                               {3, 5},
		`event: message_start` + "\n" + `data: {"message":{"usage":{"input_tokens":9,"output_tokens":1}}}` + long + `{"usage":{"output_tokens":12}}`: {9, 12},
		`{"content":"\"usage\":{\"prompt_tokens\":1000000}"}`:                                                                                        {0, 0},
		`{"usage":null}`: {0, 0},
		`{"usage":{"prompt_tokens":-1,"completion_tokens":1e99}}`:           {0, 0},
		`{"usage":{"prompt_tokens":9223372036854775807}}`:                   {mostTokens, 0},
		`{"usage":{"prompt_tokens":3`:                                       {0, 0},
		`"usage"` + `"usage":` + `"usage":{"completion_tokens":2}`:          {0, 2},
		long + long + `{"usage":{"prompt_tokens":3,"completion_tokens":5}}`: {3, 5},
	} {
		for _, size := range []int{1, 7, 3000, len(text)} {
			var tail Tail
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				_, _ = tail.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if in, out := tail.Tokens(); in != want[0] || out != want[1] {
				t.Errorf("%.100s in pieces of %d: %d %d, want %d", text, size, in, out, want)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for path, want := range map[string]Form{"/v1/messages": Anthropic, "/services/a/v1/messages/count_tokens": Anthropic, "/v1/chat/completions": OpenAI, "/messages": OpenAI} {
		if got := Of(path, false); got != want || Of(path, true) != Anthropic {
			t.Error(path, got)
		}
	}
	for status, want := range map[int][2]string{
		400: {"invalid_request_error", "invalid_request_error"}, 401: {"authentication_error", "authentication_error"}, 403: {"permission_error", "permission_error"},
		404: {"invalid_request_error", "not_found_error"}, 413: {"invalid_request_error", "request_too_large"}, 429: {"rate_limit_error", "rate_limit_error"},
		502: {"server_error", "api_error"}, 503: {"service_unavailable_error", "overloaded_error"},
	} {
		var got struct {
			Error struct{ Type, Message, Code string }
		}
		for form, name := range map[Form]string{OpenAI: want[0], Anthropic: want[1]} {
			if err := json.Unmarshal(form.Error(status, "code", `a "word"`), &got); err != nil || got.Error.Type != name || got.Error.Message != `a "word"` {
				t.Error(status, form, got, err)
			}
		}
	}
	since := time.Unix(1000, 0)
	if got := fmt.Sprintf("%s%s", OpenAI.Models(nil, since), Anthropic.Models(nil, since)); got != `{"object":"list","data":[]}`+"\n"+`{"data":[],"has_more":false,"first_id":null,"last_id":null}`+"\n" {
		t.Error(got)
	}
}
