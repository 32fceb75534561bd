package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/door/front/dialect"
	"github.com/berth-gpu/berth/internal/door/front/route"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when"
)

// unreachedLimit is how long a request waits for a server that was open and does not
// accept connections: it may have ended, and the daemon will say so in a moment.
const unreachedLimit = 10 * time.Second

func refusal(status int, code, format string, args ...any) *route.Refusal {
	return &route.Refusal{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// retry adds to a refusal when another try makes sense.
func retry(r *route.Refusal, seconds int) *route.Refusal {
	r.Retry = seconds
	return r
}

// ServeHTTP answers a request, or passes it on.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	form := dialect.Of(r.URL.Path, r.Header.Get("Anthropic-Version") != "")
	if r.URL.Path == "/healthz" && r.Method == http.MethodGet {
		_, _ = io.WriteString(w, "ok\n")
		return
	}
	coming := newPaced(w, r, f.patience)
	who, refused := f.callers.of(r)
	if refused == nil && tellsSecret(r.URL) {
		refused = refusal(http.StatusBadRequest, "token_in_address", "A token of berth stands in the address, which servers write into their logs. Send it as Authorization: Bearer TOKEN, and replace it: berth token create --replace.")
	}
	if refused == nil && !who.token {
		refused = f.checkSite(r)
	}
	if refused != nil {
		answerRefusal(w, form, refused)
		return
	}
	if listsModels(r) {
		f.serveModels(w, r, form, who)
		return
	}
	way, refused := route.Of(route.Request{
		Path: r.URL.EscapedPath(), Query: r.URL.Query(), Host: r.Host,
		Service: r.Header.Get(route.Header), Type: r.Header.Get("Content-Type"),
		Encoding: r.Header.Get("Content-Encoding"), Body: r.ContentLength != 0,
	}, f.table.known())
	if refused != nil {
		answerRefusal(w, form, refused)
		return
	}
	limit := int64(jsonLimit)
	if way.Find == route.InForm {
		limit = f.spool.one
	}
	kept := &held{room: f.memory, spool: f.spool, pieces: &f.pieces, user: who.User, limit: limit}
	defer kept.close()
	name, refused := f.choose(way, kept, coming, who)
	if refused != nil {
		answerRefusal(w, form, refused)
		return
	}
	if !who.token {
		if refused := f.checkPage(r, name); refused != nil {
			answerRefusal(w, form, refused)
			return
		}
	}
	p := &passage{front: f, service: name, form: form, who: who, path: way.Path}
	if refused := p.keepSmall(r, kept, coming); refused != nil {
		answerRefusal(w, form, refused)
		return
	}
	p.body = &passing{kept: kept, rest: coming, whole: kept.file == nil && r.ContentLength == int64(len(kept.memory))}
	defer p.body.wait()
	p.serve(w, r)
}

// listsModels reports whether a request is for the list of models, or one of its entries.
func listsModels(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get(route.Header) == "" &&
		(r.URL.Path == "/v1/models" || strings.HasPrefix(r.URL.Path, "/v1/models/"))
}

// serveModels lists the models that the caller may use.
func (f *Front) serveModels(w http.ResponseWriter, r *http.Request, form dialect.Form, who caller) {
	mine := f.namesFor(who)
	w.Header().Set("Content-Type", "application/json")
	asked := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/v1/models"), "/")
	if asked == "" {
		_, _ = w.Write(form.Models(route.Listed(mine), f.since))
		return
	}
	if _, ok := route.ByModel(mine, asked); !ok {
		answerRefusal(w, form, noModel(asked, mine))
		return
	}
	_, _ = w.Write(form.Model(asked, f.since))
}

// namesFor returns the names of the services that a caller may use.
func (f *Front) namesFor(who caller) []route.Names {
	return slices.DeleteFunc(slices.Clone(f.table.known()), func(n route.Names) bool {
		told, ok := f.table.find(n.Service)
		return !ok || !mayUse(told, who)
	})
}

// noModel says that there is no model of a name, and which the caller could have meant.
func noModel(name string, mine []route.Names) *route.Refusal {
	hint := ""
	if near, is := words.Nearest(name, route.Listed(mine)); is {
		hint = fmt.Sprintf("Did you mean %q? ", near)
	}
	return refusal(http.StatusNotFound, "model_not_found", "There is no model %q here. %s/v1/models lists them.", name, hint)
}

// mayUse reports whether a caller may use a service.
func mayUse(s api.FrontService, who caller) bool {
	return (s.Users == nil || slices.Contains(s.Users, who.User)) && (who.Service == "" || who.Service == s.Name)
}

// choose finds the service of a request, and checks that the caller may use it so.
func (f *Front) choose(way route.Way, kept *held, body io.Reader, who caller) (string, *route.Refusal) {
	name, model := way.Service, way.Model
	if way.Find != route.Nowhere {
		var refused *route.Refusal
		if model, refused = kept.findModel(body, way); refused != nil {
			return "", refused
		}
	}
	if name == "" {
		found, ok := route.ByModel(f.table.known(), model)
		if !ok {
			return "", noModel(model, f.namesFor(who))
		}
		name = found
	}
	told, ok := f.table.find(name)
	if !ok {
		return "", noService(name, f.namesFor(who))
	}
	if !mayUse(told, who) {
		if who.Unnamed && who.Service == "" {
			return "", retry(refusal(http.StatusServiceUnavailable, "user_database_away", "The user database does not say who user %s is, and not everybody may use the service %s.", who.User, name), 1)
		}
		return "", refusal(http.StatusForbidden, "forbidden", "%s may not use the service %s. Its setting users says who may.", called(who.User), name)
	}
	if route.Private(way.Path, told.Refuse) {
		return "", refusal(http.StatusForbidden, "private_path", "The front does not pass %s on: it moves the model of the service %s, or changes its server for everybody. berth stop and berth start move the model; for the rest, call the port of the server itself.", way.Path, name)
	}
	return name, nil
}

// answerRefusal answers a request in the form that its caller reads.
func answerRefusal(w http.ResponseWriter, form dialect.Form, r *route.Refusal) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if r.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(r.Retry))
	}
	if r.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(form.Error(r.Status, r.Code, r.Message))
}

// passage is a request on its way to a server.
type passage struct {
	front   *Front
	service string
	form    dialect.Form
	who     caller
	path    string // for the server, with its escapes
	socket  bool   // it asks for a WebSocket
	body    *passing

	server    *server
	begun     time.Time     // when it was passed on
	waited    time.Duration // for the service
	unreached error         // the server got none of it
	answered  bool          // the server began an answer, or broke off
	refused   bool          // the service was full, stopped or did not come
	failed    bool          // with 500 or more, or the answer broke off
	first     time.Duration // until the answer began
	tail      *dialect.Tail // of an answer that may have usage
}

// keepSmall reads the rest of a short body, so that it goes to the server in one piece,
// and a slow caller keeps no service.
func (p *passage) keepSmall(r *http.Request, kept *held, coming *paced) *route.Refusal {
	if r.ContentLength <= 0 || r.ContentLength > memoryLimit {
		return nil
	}
	rest := r.ContentLength - int64(len(kept.memory)) - kept.onDisk
	if rest <= 0 {
		return nil
	}
	if _, err := io.CopyN(kept, coming, rest); err != nil {
		return badBody(err)
	}
	return nil
}

// isUpgrade reports whether a request asks for a WebSocket. All other requests are counted,
// and none changes to another protocol: behind it the front would see no requests.
func isUpgrade(r *http.Request) bool {
	asked := r.Header["Upgrade"]
	return r.Method == http.MethodGet && r.ContentLength == 0 && len(asked) == 1 && strings.EqualFold(asked[0], "websocket") &&
		slices.ContainsFunc(r.Header["Connection"], func(value string) bool {
			return slices.ContainsFunc(strings.Split(value, ","), func(option string) bool { return strings.EqualFold(strings.TrimSpace(option), "upgrade") })
		})
}

// serve passes the request on, once the service is there.
func (p *passage) serve(w http.ResponseWriter, r *http.Request) {
	told, ok := p.front.table.find(p.service)
	ignored := ok && route.Ignored(p.path, told.Ignore)
	p.socket = ok && !ignored && isUpgrade(r)
	if ignored || p.socket {
		p.visit(w, r)
		return
	}
	defer p.count()
	asked := time.Now()
	for {
		in, refused := p.front.enter(r.Context(), p.service, p.who.User, p.body.gather)
		if refused != nil {
			if r.Context().Err() != nil {
				p.body.wait() // it may know why
			}
			if err := p.body.broken(); err != nil {
				answerRefusal(w, p.form, badBody(err))
			} else if r.Context().Err() == nil {
				p.refuse(w, refused)
			}
			return
		}
		p.waited = time.Since(asked)
		p.attempt(w, r, in)
		if p.unreached == nil {
			return
		}
		if stranger := (*strangerError)(nil); errors.As(p.unreached, &stranger) || time.Since(asked)-p.waited > unreachedLimit {
			p.refuse(w, retry(refusal(http.StatusServiceUnavailable, "unreachable", "The server of %s does not accept connections: %v.", p.service, p.unreached), 2))
			return
		}
		when.Pause(r.Context(), again)
		if r.Context().Err() != nil {
			return
		}
	}
}

// refuse answers a request because its service is full, stopped or did not come.
func (p *passage) refuse(w http.ResponseWriter, why *route.Refusal) {
	p.refused = true
	answerRefusal(w, p.form, why)
}

// attempt passes a request that was admitted to the server.
func (p *passage) attempt(w http.ResponseWriter, r *http.Request, in admission) {
	defer p.front.table.leave(in)
	p.pass(w, r, in.server)
}

// visit passes a request on that neither brings a service nor keeps it.
func (p *passage) visit(w http.ResponseWriter, r *http.Request) {
	stay := p.front.table.current(p.service)
	if stay == nil {
		answerRefusal(w, p.form, retry(refusal(http.StatusServiceUnavailable, "away", "The service %s is away, and a request of this kind does not bring it.", p.service), 5))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(stay.ended, cancel)()
	p.pass(w, r.WithContext(ctx), stay.server)
	if p.unreached != nil {
		answerRefusal(w, p.form, retry(refusal(http.StatusServiceUnavailable, "unreachable", "The server of %s does not accept connections: %v.", p.service, p.unreached), 2))
	}
}

// passageKey is the key of a passage in the context of its request.
type passageKey struct{}

func passageOf(ctx context.Context) *passage { return ctx.Value(passageKey{}).(*passage) }

// pass passes a request to a server, and its answer back.
func (p *passage) pass(w http.ResponseWriter, r *http.Request, to *server) {
	p.server, p.unreached, p.begun = to, nil, time.Now()
	out := r.WithContext(context.WithValue(r.Context(), passageKey{}, p))
	if r.ContentLength != 0 {
		out.Body = p.body
	}
	p.front.proxy.ServeHTTP(w, out)
}

// newProxy returns the proxy of all passages.
func newProxy(pieces *buffers) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      transport(func(r *http.Request) (*http.Response, error) { return passageOf(r.Context()).server.RoundTrip(r) }),
		FlushInterval:  -1,
		BufferPool:     pieces,
		ModifyResponse: func(resp *http.Response) error { return passageOf(resp.Request.Context()).begin(resp) },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			passageOf(r.Context()).fail(w, r, err)
		},
	}
}

// transport is a function that makes a round trip.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// rewrite makes the request for the server: the same, with its own path, without tokens of
// berth and without what only a proxy may say.
func rewrite(r *httputil.ProxyRequest) {
	p := passageOf(r.In.Context())
	out := r.Out
	out.URL.Scheme, out.URL.Host = "http", "127.0.0.1:"+strconv.Itoa(p.server.port)
	out.URL.RawQuery = r.In.URL.RawQuery // as it is: it was not used to decide on more than a name
	out.URL.RawPath = p.path
	out.URL.Path, _ = url.PathUnescape(p.path)
	out.Host = out.URL.Host
	if !isUpgrade(r.In) {
		out.Header.Del("Connection")
		out.Header.Del("Upgrade")
		out.Header.Del("Http2-Settings")
	}
	withoutSecrets(out)
	for name := range out.Header {
		if route.NamesUser(name) || name == "Expect" {
			delete(out.Header, name)
		}
	}
	if p.who.keep {
		out.Header.Del("Authorization")
		out.Header.Del("X-Api-Key")
	}
	r.SetXForwarded()
}

var errNoSocket = errors.New("the answer is no WebSocket")

// begin notes the beginning of an answer.
func (p *passage) begin(resp *http.Response) error {
	p.answered, p.first, p.failed = true, time.Since(p.begun), resp.StatusCode >= 500
	withoutPowers(resp.Header)
	if p.socket && resp.StatusCode/100 == 2 {
		return errNoSocket // a request for one is not counted, so it must not get anything else
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	streams := kind == "text/event-stream"
	if streams {
		resp.Header.Set("X-Accel-Buffering", "no") // for a proxy before the front
	}
	if (streams || kind == "application/json") && resp.Header.Get("Content-Encoding") == "" {
		p.tail = &dialect.Tail{}
	}
	resp.Body = &watched{resp.Body, p, streams && resp.ContentLength < 0}
	return nil
}

// watched is the body of an answer, of which the end is kept. A stream that is broken off
// tells its caller why.
type watched struct {
	io.ReadCloser
	p       *passage
	streams bool
}

func (b *watched) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.p.tail != nil {
		_, _ = b.p.tail.Write(into[:n])
	}
	if err != nil && err != io.EOF {
		b.p.failed = true
		if why := b.p.server.cutOff(); why != "" && b.streams {
			n += copy(into[n:], b.p.form.LastEvent(http.StatusServiceUnavailable, "cut_off", why))
		}
	}
	return n, err
}

// fail answers a request that got no answer from the server.
func (p *passage) fail(w http.ResponseWriter, r *http.Request, err error) {
	if unreached := (*unreachedError)(nil); errors.As(err, &unreached) {
		p.unreached = unreached.err
		return
	}
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the caller has left, or the service has
	}
	if why := p.server.cutOff(); why != "" {
		p.failed, p.answered = true, true
		answerRefusal(w, p.form, retry(refusal(http.StatusServiceUnavailable, "cut_off", "%s", why), 1))
		return
	}
	if p.body.cut.Load() {
		answerRefusal(w, p.form, refusal(http.StatusBadRequest, "bad_body", "The body of the request did not come whole, or came too slowly."))
		return
	}
	p.failed, p.answered = true, true
	if errors.Is(err, errNoSocket) {
		answerRefusal(w, p.form, refusal(http.StatusBadGateway, "no_socket", "The server of %s did not change to a WebSocket. Ask without Upgrade for anything else.", p.service))
		return
	}
	answerRefusal(w, p.form, refusal(http.StatusBadGateway, "server_broke_off", "The server of %s broke off before it answered: %v. berth logs %s may say why.", p.service, err, p.service))
}

// count counts the request, when it is over. One whose caller left, or did not send its
// body, says nothing about the service.
func (p *passage) count() {
	if !p.answered && !p.refused {
		return
	}
	var in, out uint64
	if p.tail != nil {
		in, out = p.tail.Tokens()
	}
	p.front.table.count(p.service, func(c *api.FrontCounted) {
		c.Requests++
		c.Waited += p.waited.Seconds()
		if !p.answered {
			c.Refused++
			return
		}
		if p.failed {
			c.Failed++
		}
		c.TokensIn += in
		c.TokensOut += out
		if c.FirstByte == nil {
			c.FirstByte = make([]uint64, len(api.FrontBounds)+1)
		}
		class, _ := slices.BinarySearch(api.FrontBounds, p.first.Seconds())
		c.FirstByte[class]++
		c.Seconds += p.first.Seconds()
	})
}
