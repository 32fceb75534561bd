package front

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/desk/tokens"
)

// A server is a program of some user: it gets no secret of berth from those who call it,
// and no power over them.

// tokenLength is how many characters follow tokens.Prefix in a token that berth made.
const tokenLength = 43

// showsToken reports whether a text has a token that berth made, or a word that begins like
// one.
func showsToken(text string) bool {
	return hasToken(text) || strings.Contains(text, tokens.Prefix) &&
		slices.ContainsFunc(strings.Fields(text), func(word string) bool { return strings.HasPrefix(word, tokens.Prefix) })
}

// hasToken reports whether a token that berth made stands anywhere in a text.
func hasToken(text string) bool {
	for {
		_, rest, found := strings.Cut(text, tokens.Prefix)
		if !found {
			return false
		}
		if end := strings.IndexFunc(rest, isForeign); end >= tokenLength || end < 0 && len(rest) >= tokenLength {
			return true
		}
		text = rest
	}
}

// isForeign reports whether a character is in no token.
func isForeign(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

// tellsSecret reports whether an address has a token.
func tellsSecret(u *url.URL) bool {
	query, err := url.QueryUnescape(u.RawQuery)
	return hasToken(u.Path) || hasToken(u.RawQuery) || err == nil && hasToken(query)
}

// withoutSecrets takes the headers with tokens of berth out of a request, and the cookies
// of sessions on the page of a daemon.
func withoutSecrets(r *http.Request) {
	if user, password, basic := r.BasicAuth(); basic && (showsToken(user) || showsToken(password)) {
		r.Header.Del("Authorization")
	}
	for name, values := range r.Header {
		if name == "Cookie" {
			var kept []string
			for _, value := range values {
				pairs := slices.DeleteFunc(strings.Split(value, ";"), func(pair string) bool { return isOwn(pair) || hasToken(pair) })
				if value := strings.TrimSpace(strings.Join(pairs, ";")); value != "" {
					kept = append(kept, value)
				}
			}
			r.Header[name] = kept
		} else if slices.ContainsFunc(values, showsToken) {
			delete(r.Header, name)
		}
	}
}

// isOwn reports whether a cookie is that of a session on the page of a daemon, which
// browsers send to every port of its host. Browsers make a cookie without a name look like
// another one.
func isOwn(pair string) bool {
	name := strings.TrimPrefix(strings.TrimLeft(pair, " \t="), "__Host-")
	return strings.HasPrefix(name, "berth_session")
}

// withoutPowers takes out of an answer what is for a whole host, on which other services
// and the page of the daemon are, too.
func withoutPowers(h http.Header) {
	h.Del("Service-Worker-Allowed")
	h.Del("Clear-Site-Data")
	if set, has := h["Set-Cookie"]; has {
		h["Set-Cookie"] = slices.DeleteFunc(slices.Clone(set), isOwn)
	}
}
