package dialect

import (
	"bytes"
	"encoding/json"
)

const (
	headSize = 1 << 10
	tailSize = 2 << 10

	// mostTokens is the most that one answer is believed to have used.
	mostTokens = 1 << 30
)

// Tail keeps the beginning and the end of an answer, where its usage stands: at the end,
// except that a stream in Anthropic's form begins with the tokens of the request. The zero
// value is ready to use.
type Tail struct {
	head, tail []byte
	at         int // where the oldest byte of a full tail is
}

// Write reads the next piece of the answer. It always takes all of it.
func (t *Tail) Write(piece []byte) (int, error) {
	whole := len(piece)
	if room := headSize - len(t.head); room > 0 {
		n := min(room, len(piece))
		t.head, piece = append(t.head, piece[:n]...), piece[n:]
	}
	if len(piece) > tailSize {
		piece = piece[len(piece)-tailSize:]
	}
	if room := tailSize - len(t.tail); room > 0 {
		n := min(room, len(piece))
		t.tail, piece = append(t.tail, piece[:n]...), piece[n:]
	}
	for len(piece) > 0 {
		n := copy(t.tail[t.at:], piece)
		t.at, piece = (t.at+n)%tailSize, piece[n:]
	}
	return whole, nil
}

// Tokens returns how many tokens the request and the answer had, as the server counted
// them, or zeros if it did not.
func (t *Tail) Tokens() (in, out uint64) {
	text := t.head
	if len(t.tail) > 0 {
		text = bytes.Join([][]byte{t.head, t.tail[t.at:], t.tail[:t.at]}, nil)
	}
	key := []byte(`"usage"`)
	for {
		_, after, is := bytes.Cut(text, key)
		if !is {
			return in, out
		}
		text = after
		after, is = bytes.CutPrefix(bytes.TrimLeft(after, " \t\r\n"), []byte{':'})
		if !is {
			continue
		}
		var usage struct {
			Prompt     uint64 `json:"prompt_tokens"`
			Completion uint64 `json:"completion_tokens"`
			In         uint64 `json:"input_tokens"`
			Out        uint64 `json:"output_tokens"`
		}
		if json.Unmarshal(object(after), &usage) != nil {
			continue // cut off, or something else
		}
		// Servers count up while they stream.
		in = max(in, min(max(usage.Prompt, usage.In), mostTokens))
		out = max(out, min(max(usage.Completion, usage.Out), mostTokens))
	}
}

// object returns the JSON object that a text begins with, or nil if it begins with none.
func object(text []byte) []byte {
	text = bytes.TrimLeft(text, " \t\r\n")
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			depth--
		}
		if depth <= 0 && !quoted {
			return text[:i+1]
		}
	}
	return nil
}
