package api

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// The types of this file are the protocol between the daemon and the front, the process
// that takes HTTP requests for services. The front calls; the daemon knows it by its user.
//
// A front makes up a name for itself when it starts, because two may run at a time: an old
// one that ends its streams, and the new one. The daemon adds up what they report.

// FrontOrder is one line of the stream of orders to a front. It has one of its fields,
// except that the first line has Services, and may have Settings.
type FrontOrder struct {
	Services []FrontService `json:"services,omitzero" doc:"All services. It replaces the whole table; the first line has it."`
	Settings *FrontSettings `json:"settings,omitempty" doc:"Where to listen; with the first line."`

	Service *FrontService `json:"service,omitempty" doc:"Replaces one service, or adds it."`
	Removed string        `json:"removed,omitempty" doc:"The name of a service that there is no more."`
	Probe   *FrontProbe   `json:"probe,omitempty" doc:"Ask the server until it is ready, and report probed."`
	Call    *FrontCall    `json:"call,omitempty" doc:"Make calls to the server, and report called."`
}

// FrontSettings tells a front what the configuration says about it.
type FrontSettings struct {
	Listen  string `json:"listen" example:"127.0.0.1:8080"`
	TLSCert string `json:"tls_cert,omitempty" doc:"File with the certificate. Absent: no TLS."`
	TLSKey  string `json:"tls_key,omitempty" doc:"File with its key."`
}

// FrontService is what a front knows of a service.
type FrontService struct {
	Name   string   `json:"name"`
	Models []string `json:"models,omitempty" doc:"The names of models that mean this service; * stands for any characters. The name of the service always does."`
	Hosts  []string `json:"hosts,omitempty" doc:"The names in Host that mean this service."`
	Users  []string `json:"users,omitempty" doc:"Who may use it, named as in FrontCaller. Absent: everybody."`

	MaxOpen int      `json:"max_open,omitempty" doc:"How many requests may be open or wait at a time. Absent: as many as the front takes."`
	Ignore  []string `json:"ignore,omitempty" doc:"Paths whose requests neither bring the service nor keep it; * stands for any characters."`
	Refuse  []string `json:"refuse,omitempty" doc:"Paths of the server that callers may not use: those of sleep and wake."`
	Timeout float64  `json:"start_timeout_seconds,omitempty" doc:"How long a request waits for the service. Absent: 600."`

	State string `json:"state" enum:"away,waiting,starting,ready,closing,leaving,parked,asleep,returning,failed" doc:"closing: admit no more requests under this epoch, and report closed when its last request has ended."`
	Epoch uint64 `json:"epoch,omitempty" maximum:"9007199254740991" doc:"The number of this stay of the service. It grows with each, also over restarts of the daemon. One that was closed never opens again."`
	Port  int    `json:"port,omitempty" doc:"Where the server listens, on 127.0.0.1."`
	UID   int    `json:"uid,omitempty" doc:"Whose socket must listen there."`

	Stopped *FrontStopped `json:"stopped,omitempty" doc:"A person stopped it; requests are refused until it is started."`
	Cut     string        `json:"cut,omitempty" doc:"With the state closing: break off the requests that are open under this epoch, and tell their callers this."`
}

// FrontStopped says who stopped a service, and why.
type FrontStopped struct {
	By  string    `json:"by"`
	Why string    `json:"why,omitempty"`
	At  time.Time `json:"at"`
}

// Sentence says that a service was stopped, to whoever asks for it.
func (s *FrontStopped) Sentence(service string) string {
	why := ""
	if s.Why != "" {
		why = ": " + s.Why
	}
	return fmt.Sprintf("%s stopped the service %s on %s%s. It comes back after berth start %[2]s.", s.By, service, s.At.Format("2006-01-02 15:04"), why)
}

// FrontEpoch names one stay of a service.
type FrontEpoch struct {
	Service string `json:"service" maxLength:"128"`
	Epoch   uint64 `json:"epoch" maximum:"9007199254740991"`
}

// FrontProbe asks a front to find out when a server is ready. It ends without a report if
// the service gets another epoch, or a state other than starting and returning.
type FrontProbe struct {
	FrontEpoch
	Port    int        `json:"port"`
	UID     int        `json:"uid"`
	Ready   FrontReady `json:"ready"`
	Timeout float64    `json:"timeout_seconds"`
}

// FrontReady says how a server shows that it is ready.
type FrontReady struct {
	Path string `json:"path,omitempty" example:"/health" doc:"It answers GET of this path with 200. Absent: it accepts connections."`
}

// FrontCall asks a front to make calls to a server, one after the other, as for sleep and
// wake. The first that fails ends them.
type FrontCall struct {
	FrontEpoch
	ID      string          `json:"id" doc:"Goes into the report."`
	Port    int             `json:"port"`
	UID     int             `json:"uid"`
	Calls   []FrontHTTPCall `json:"calls"`
	Timeout float64         `json:"timeout_seconds" doc:"For all of them."`
}

// FrontHTTPCall is one call to a server.
type FrontHTTPCall struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Body   string `json:"body,omitempty"`
}

// FrontReports is what a front reports. It sends one after the other, and one that was not
// answered again with the same number.
type FrontReports struct {
	Front   string        `json:"front" maxLength:"64" pattern:"^[a-z0-9]+$" doc:"The name that the front made up, as in its request for orders."`
	Number  uint64        `json:"number" maximum:"9007199254740991" doc:"Grows by one. A number that was seen before is answered and not counted again."`
	Whole   bool          `json:"whole,omitempty" doc:"The open reports are about all services; one that is not there has no requests. A front sends such a report after each request for orders; before it, the daemon does not know how many requests that front has."`
	Listen  string        `json:"listen,omitempty" maxLength:"256" doc:"Where the front takes requests. Absent: not yet, or no more."`
	Reports []FrontReport `json:"reports" maxItems:"10000"`
}

// FrontTaken says that a report was taken in.
type FrontTaken struct {
	Number uint64 `json:"number" maximum:"9007199254740991"`
}

// FrontReport is one thing that a front reports. It has one of its fields.
type FrontReport struct {
	Closed  *FrontEpoch   `json:"closed,omitempty" doc:"The last request of this epoch has ended, and no other will begin under it."`
	Probed  *FrontOutcome `json:"probed,omitempty" doc:"The server is ready, or was not within the time."`
	Called  *FrontOutcome `json:"called,omitempty"`
	Open    *FrontOpen    `json:"open,omitempty"`
	Counted *FrontCounted `json:"counted,omitempty"`
	Used    *FrontUsed    `json:"used,omitempty"`
}

// FrontOutcome is what became of a probe or of calls.
type FrontOutcome struct {
	FrontEpoch
	ID    string `json:"id,omitempty" maxLength:"128" doc:"Of the calls."`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty" maxLength:"2048"`
}

// FrontOpen says how many requests a service has. A front sends it when a service goes
// between none and some, and about all services after each request for orders.
type FrontOpen struct {
	Service    string    `json:"service" maxLength:"128"`
	Epoch      uint64    `json:"epoch,omitempty" maximum:"9007199254740991"`
	Open       int       `json:"open" maximum:"9007199254740991" minimum:"0" doc:"Requests that were passed on and whose answers have not ended."`
	Waiting    int       `json:"waiting" maximum:"9007199254740991" minimum:"0" doc:"Requests that wait for the service."`
	LastAnswer time.Time `json:"last_answer,omitzero" doc:"When the last answer ended. Absent: none has since the front began."`
}

// FrontCounted is what a front counted of a service since its last report.
type FrontCounted struct {
	Service   string   `json:"service" maxLength:"128"`
	Requests  uint64   `json:"requests" maximum:"9007199254740991" doc:"Requests that got an answer of any kind."`
	Failed    uint64   `json:"failed,omitempty" maximum:"9007199254740991" doc:"Of these, those that the server answered with 500 or more, or not to the end."`
	Refused   uint64   `json:"refused,omitempty" maximum:"9007199254740991" doc:"Of these, those that the front answered itself because the service was full, stopped or did not come."`
	TokensIn  uint64   `json:"tokens_in,omitempty" maximum:"9007199254740991" doc:"From the usage of answers that have it."`
	TokensOut uint64   `json:"tokens_out,omitempty" maximum:"9007199254740991"`
	FirstByte []uint64 `json:"first_byte,omitempty" maxItems:"32" doc:"How many answers began within each of FrontBounds, and after the last, each counted once; from when the request was passed on."`
	Seconds   float64  `json:"first_byte_seconds,omitempty" maximum:"1e15" doc:"The sum of these times."`
	Waited    float64  `json:"waited_seconds,omitempty" maximum:"1e15" doc:"How long requests waited for the service, in sum."`
}

// FrontUsed says who used a service since the last such report, and who waits for it. A
// front sends it every few seconds while somebody does, and once when nobody does any more.
type FrontUsed struct {
	Service string     `json:"service" maxLength:"128"`
	Callers []FrontUse `json:"callers" maxItems:"64" doc:"Who has requests, or had one since the last report. Those beyond a number have one entry together."`
}

// FrontUse is what one caller used of a service.
type FrontUse struct {
	User    string  `json:"user,omitempty" maxLength:"256" doc:"As FrontCaller names them. Absent: all whom the front did not keep apart."`
	Open    int     `json:"open,omitempty" maximum:"9007199254740991" minimum:"0"`
	Waiting int     `json:"waiting,omitempty" maximum:"9007199254740991" minimum:"0"`
	Seconds float64 `json:"seconds,omitempty" minimum:"0" maximum:"1e6" doc:"How long the service had requests, as far as it falls to this caller: each moment belongs to the requests that are open then, in equal parts."`
}

// FrontBounds are the upper bounds of the classes of FrontCounted.FirstByte, in seconds.
var FrontBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// FrontBring asks for a service. The answer comes when the service is open, or will not
// come; then it is a problem, whose extra may have retry_after_seconds. A front that hangs
// up has nobody left who waits.
type FrontBring struct {
	Front   string `json:"front" maxLength:"64" pattern:"^[a-z0-9]+$"`
	Service string `json:"service" maxLength:"128"`
	User    string `json:"user" maxLength:"256" doc:"Who asks, as FrontCaller names them; for fair shares. Empty: users whom the front does not keep apart."`

	Waited float64 `json:"waited_seconds,omitempty" minimum:"0" maximum:"1000000" doc:"A request has waited so long, and waits no more. If this is not 0, nothing is brought, and the answer is a problem that says what the service waits for."`
}

// FrontBrought says where a service is open.
type FrontBrought struct {
	Epoch uint64 `json:"epoch" maximum:"9007199254740991"`
	Port  int    `json:"port"`
	UID   int    `json:"uid"`
}

// FrontWho asks who a caller is: one that showed a token, or a user of this machine over
// TCP.
type FrontWho struct {
	Token string       `json:"token,omitempty" maxLength:"512"`
	UID   gpu.Opt[int] `json:"uid,omitzero" minimum:"0" maximum:"4294967295" doc:"If there is no token."`
	Inode uint32       `json:"inode,omitempty" maximum:"4294967295" doc:"Of the socket of a user of this machine, by which the daemon finds its process."`
}

// FrontCaller says who a caller is. A token that the daemon does not know is a problem with
// status 401 and the code unauthorized; only such a token is for a server. With the code
// weak_token it is not for a server, but does not say who calls either.
type FrontCaller struct {
	User    string `json:"user" doc:"Login name, user id if there is none, or token:NAME."`
	Role    string `json:"role" enum:"stranger,scraper,viewer,user,operator,admin"`
	Service string `json:"service,omitempty" doc:"The only service that a token is for."`
	Unnamed bool   `json:"unnamed,omitempty" doc:"The user database has not said how the user is called: user is a number for now."`
	Socket  bool   `json:"socket,omitempty" doc:"The answer is about the process at the other end of this socket, and says nothing of other processes of the user."`
}
