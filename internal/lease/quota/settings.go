package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Settings say what requests may have of a machine.
type Settings struct {
	// Device returns the settings of one device.
	Device func(uuid string) DeviceSettings
	// Services has the settings of services, by name.
	Services map[string]Served
	// Alike has the names of Services by what they look like, as Alike returns them.
	Alike map[string]string
	// KnownOnly refuses requests for a service that is not among Services.
	KnownOnly bool
	// Wait is how long a request waits if it does not say so itself.
	Wait time.Duration
	// Pass lets others pass a request whose start is not known.
	Pass bool
	// Limits says what users may have.
	Limits Lookup
}

// ParkServices reports whether berth may park the leases of some service, whatever the
// leases say.
func (s *Settings) ParkServices() bool {
	for _, service := range s.Services {
		if service.Parkable.Or(false) {
			return true
		}
	}
	return false
}

// DeviceSettings are the settings of one device.
type DeviceSettings struct {
	Limit        gpu.MiB // zero means all of it
	Reserve      gpu.MiB
	MaxPipelines int // zero means the number of CPUs divided by that of devices
	Extra        int // slots beyond MaxPipelines while the device has little to do
}

// Served has the settings of one service, and which devices and processes are its
// own.
type Served struct {
	Service
	Preferred string         // index or UUID of the device to try first; may be empty
	Match     *kinship.Match // how to recognize its processes; nil if the settings do not say
}

// Knows refuses a service that looks like a configured one. Where only configured
// services may ask, it also refuses one that is not configured.
func (s *Settings) Knows(service string) error {
	if _, known := s.Services[service]; known || service == "" {
		return nil
	}
	if len(s.Alike) > 0 {
		if name := s.Alike[skeleton(service)]; name != "" {
			return &AdmitError{
				Service: service, Err: ErrAlike,
				Text: fmt.Sprintf("it differs from the configured service %s only by case, or by letters that look alike", name),
			}
		}
	}
	if !s.KnownOnly {
		return nil
	}
	names := slices.Sorted(maps.Keys(s.Services))
	return &AdmitError{
		Service: service, Err: ErrService,
		Text: "it is not configured, and unknown_services is refuse: " + words.Suggest(service, names, "there is none like it"),
	}
}

// Lookup finds what holders may have. It remembers answers, so it is for one
// goroutine at a time.
type Lookup struct {
	// Of returns what somebody may have; nil means what lease.Builtin says.
	Of func(lease.Subject) *lease.Limits
	// Generation identifies the rules: limits from other rules are not valid here.
	Generation uint64

	found map[asked]*lease.Limits
}

// Fresh returns a Lookup with the same rules, for another goroutine.
func (r Lookup) Fresh() Lookup {
	r.found = nil
	return r
}

// asked is the key of a remembered answer: the limits that a request brought, which are
// from other rules, or a holder.
type asked struct {
	known *lease.Limits
	owner lease.Owner
}

// mostFound is how many limits a Lookup remembers.
const mostFound = 4096

// For returns the limits of a holder; nil if the actor may exceed them. Known are limits
// that may be the holder's and may be from other rules; nil if none are known.
func (r *Lookup) For(h lease.Holder, known *lease.Limits, by *access.Actor) *lease.Limits {
	if access.May(*by, access.Exceed, access.Object{}) == nil {
		return nil
	}
	owner := h.Owner()
	subject := lease.Subject{Owner: owner}
	switch {
	case known == nil || known.Subject.Owner != owner:
		known = nil
	case known.Generation == r.Generation:
		return known
	default:
		subject = known.Subject
	}
	key := asked{known, owner}
	if limits := r.found[key]; limits != nil {
		return limits
	}
	if r.found == nil || len(r.found) >= mostFound {
		r.found = map[asked]*lease.Limits{}
	}
	limits := r.of(subject)
	if subject.Program {
		limits = limits.OfProgram()
	}
	r.found[key] = limits
	return limits
}

func (r *Lookup) of(s lease.Subject) *lease.Limits {
	if r.Of != nil {
		return r.Of(s)
	}
	l := lease.Builtin()
	l.Subject, l.Generation = s, r.Generation
	return &l
}

// Lacking returns the allowance that a request waits for if an AdmitError or a LimitError
// refuses it.
func Lacking(r *lease.Request, err error) lease.Allowance {
	limit := (*LimitError)(nil)
	switch {
	case !errors.As(err, &limit):
		return lease.ServiceQuota(r.Holder.Service)
	case limit.Group != "":
		return lease.GroupLimit(limit.Group)
	}
	return lease.UserLimit(r.Holder.Owner())
}

// WaitAhead refuses a request because another one is ahead of it in the queue and
// waits for an allowance that both need.
func WaitAhead(first *lease.Request, lacks lease.Allowance) *LimitError {
	return &LimitError{Err: ErrLimit, Group: lacks.Group, Later: true, behind: first.ID}
}

// KindOf says whose allowance an error is about that refuses a request for now: that of its
// user, of a group of the user, or of its service.
func KindOf(err error) string {
	limit := (*LimitError)(nil)
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &limit):
		return "service"
	case limit.Group != "":
		return "group"
	}
	return "user"
}

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
