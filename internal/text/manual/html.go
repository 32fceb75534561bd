package manual

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
)

// Way says how one page of a site leads to others.
type Way struct {
	Index  string // the address of the index
	Before string // what stands before the name of a topic or the folder of pictures
	After  string // what stands after the name of a topic
}

// To returns the address of a topic.
func (w Way) To(t *Topic) string {
	if t.Part == "" {
		return w.Index
	}
	return w.Before + t.Name + w.After
}

// HTML returns a page as HTML. Its links and pictures have the addresses that the way
// gives them, and its headings have their anchors.
func (m *Manual) HTML(t *Topic, w Way) ([]byte, error) {
	root := parse(t.source)
	var anchors []string
	for heading := range all[*ast.Heading](root) {
		anchors = append(anchors, anchorOf(heading, t.source, anchors))
		heading.SetAttributeString("id", []byte(anchors[len(anchors)-1]))
	}
	address := func(link []byte) []byte {
		switch to := m.follow(t, string(link)); {
		case to.topic == t && to.anchor != "":
			return []byte(to.anchor)
		case to.topic != nil:
			return []byte(w.To(to.topic) + to.anchor)
		case to.picture != "":
			return []byte(w.Before + "pictures/" + to.picture)
		default:
			return []byte(to.address)
		}
	}
	for link := range all[*ast.Link](root) {
		link.Destination = address(link.Destination)
	}
	for picture := range all[*ast.Image](root) {
		picture.Destination = address(picture.Destination)
		picture.SetAttributeString("loading", []byte("lazy"))
	}
	var b bytes.Buffer
	if err := markdown().Renderer().Render(&b, t.source, root); err != nil {
		return nil, err
	}
	// In a text the characters < and > are escaped, so these are tables. A wide one moves
	// by itself, also with the keys.
	text := bytes.ReplaceAll(b.Bytes(), []byte("<table>"), []byte(`<div class="wide" tabindex="0"><table>`))
	return bytes.ReplaceAll(text, []byte("</table>"), []byte("</table></div>")), nil
}
