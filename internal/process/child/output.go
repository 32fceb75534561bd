package child

import "strings"

// Head is a writer that keeps the beginning of the output of a child and drops the rest.
type Head struct {
	Limit int // bytes
	kept  []byte
	more  bool
}

// Write never fails, so that it does not hold up a child.
func (h *Head) Write(p []byte) (int, error) {
	room := h.Limit - len(h.kept)
	h.kept = append(h.kept, p[:min(room, len(p))]...)
	h.more = h.more || len(p) > room
	return len(p), nil
}

// String returns the beginning as text, and says whether more was dropped.
func (h *Head) String() string {
	text := strings.ToValidUTF8(strings.TrimSpace(string(h.kept)), "\uFFFD")
	if h.more {
		text += " … and more"
	}
	return text
}

// Tail is a writer that keeps the end of the output of a child, because a traceback ends
// with the error.
type Tail struct {
	Limit int // bytes
	kept  []byte
}

// Write never fails, so that it does not hold up a child.
func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.Limit):]...)
	t.kept = append(t.kept[:0], t.kept[max(0, len(t.kept)-t.Limit):]...)
	return len(p), nil
}

// Lines returns the last n lines as text, or fewer if there are fewer.
func (t *Tail) Lines(n int) []string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "?"))
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-n):]
}
