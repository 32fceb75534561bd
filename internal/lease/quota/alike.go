package quota

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Alike returns the names of services by what they look like. A user who leases as
// Embedder, or as embеdder with a Cyrillic е, must neither pass for embedder nor escape
// its limits.
func Alike[V any](services map[string]V) map[string]string {
	names := make(map[string]string, len(services))
	for name := range services {
		if other, twice := names[skeleton(name)]; !twice || name < other {
			names[skeleton(name)] = name
		}
	}
	return names
}

// skeleton returns what a name looks like to somebody who reads it quickly: two
// names with one skeleton differ only by case, by accents, or by letters that look
// alike. The names of configured services are ASCII, so a letter of another
// script matters only if it looks like an ASCII letter. It follows UTS #39,
// which takes rn for m too, but disregards case.
func skeleton(name string) string {
	b := make([]byte, 0, len(name))
	for _, r := range name {
		if r < utf8.RuneSelf {
			b = append(b, plainest(byte(r)))
			continue
		}
		if c, found := lookalikes[r]; found {
			b = append(b, plainest(c))
			continue
		}
		for _, part := range norm.NFKD.String(string(r)) { // é is e with a mark, ｅ is e
			switch c, found := lookalikes[part]; {
			case found:
				b = append(b, plainest(c))
			case part < utf8.RuneSelf:
				b = append(b, plainest(byte(part)))
			case unicode.In(part, unicode.Pd, unicode.Pc), part == '−':
				b = append(b, '-')
			case !unicode.Is(unicode.M, part):
				b = utf8.AppendRune(b, unicode.ToLower(part))
			}
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(string(b), "rn", "m"), "vv", "w")
}

// plainest returns the same letter for ASCII characters that look alike, ignoring case.
func plainest(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		c += 'a' - 'A'
	case c == '_':
		return '-'
	}
	switch c {
	case 'i', '1', '|':
		return 'l'
	case '0':
		return 'o'
	}
	return c
}

// lookalikes has the ASCII letters that letters of other scripts look like.
var lookalikes = func() map[rune]byte {
	all := map[rune]byte{}
	for _, letters := range []string{ // first the ASCII letter; then Latin, Greek, Cyrillic, Armenian, Cherokee, Lisu
		"aɑᴀΑαАаᎪꓮ", "bʙƄƅΒβВвЬьᏏᏴꓐ", "cᴄϹϲςСсᏟꓚ", "dᴅðÐđĐԀԁᎠᏧꓓ", "eᴇɛΕεЕеҼҽᎬꓰ", "fƒϜϝꓝ", "gɡɢԌԍցᏀᏻᏳꓖ", "hʜħĦΗНнҺһհᎻꓧ",
		"iıɪɩƖΙιІіᎥꓲ", "jȷᴊϳͿЈјᎫꓙ", "kᴋΚκКкᏦꓗ", "lʟłŁǀӀӏᏞꓡ", "mᴍΜМмᎷꓟ", "nɴΝηпոռꓠ", "oᴏøØΟοσОоՕօסꓳ", "pᴘΡρРрᏢꓑ", "qԚԛգզ",
		"rʀɾᴦгᎡᏒꓣ", "sꜱƽЅѕՏᏕᏚꓢ", "tᴛŧŦΤτТтᎢꓔ", "uᴜʋυμՍսꓴ", "vᴠνѴѵᏙꓦ", "wᴡɯωԜԝѠѡաᎳᏔꓪ", "x×ΧχХхꓫ", "yʏɣΥγУуҮүყꓬ", "zᴢƶƵΖᏃꓜ",
		"3ʒƷȜȝЗзӠӡ", "4Ꮞ", "6б",
	} {
		for _, r := range letters[1:] {
			all[r] = letters[0]
		}
	}
	return all
}()
