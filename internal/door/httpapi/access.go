package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
)

func registerAccess(s *server) {
	on := func(pattern, id, summary, description string, errors ...int) huma.Operation {
		return on(pattern, "access", id, summary, description, errors...)
	}
	serve(s, on("GET /api/whoami", "whoami", "Who the daemon takes the caller for, and why", "berth help access says what each role may do."), s.whoami)
	serve(s, on("GET /api/quota", "quota", "What a user may have, and has",
		"Each limit with how much of it is used, and the entry of the configuration that sets it. Of others than oneself it needs the role operator."), s.quota)
	serve(s, on("GET /api/tokens", "tokens", "The tokens that the daemon accepts, without their secrets",
		"A token without a time of creation stands in the configuration. Expired tokens are listed for 30 days."), s.tokens)
	request(s, creating(on("POST /api/tokens", "create-token", "Make a token",
		"The answer shows the secret once; the daemon keeps only its hash. A request may bring its own secret of at least 32 characters. "+
			"A token has at most the role of whoever makes it. The same request again, with the same secret, changes nothing; with replace, it takes the place of the token of that name.",
		http.StatusConflict)), func(_ context.Context, by desk.Caller, b api.TokenRequest) (api.NewToken, error) {
		return s.Desk.People.CreateToken(by, b)
	})
	serve(s, on("DELETE /api/tokens/{name}", "revoke-token", "Refuse a token from now on",
		"Event streams, lease streams and waiting requests of its holder end at once. Its leases stand until they are released or expire.",
		http.StatusNotFound, http.StatusConflict), s.revokeToken)
}

func (s *server) whoami(ctx context.Context, _ *struct{}) (*answer[api.Whoami], error) {
	c := doorkeeper.Of(ctx)
	who := c.Identity()
	out := api.Whoami{
		User: who.User, Role: who.Role.String(), Door: string(who.Door), Token: who.Token, Service: who.Service,
		Why: []string{"the command runs the daemon in its own process"},
	}
	if who.UID != access.NoUID {
		out.UID = gpu.Some(who.UID)
	}
	if own := c.Session(); own != nil {
		shown := s.sessionOf(own, c)
		out.Session = &shown
	}
	if known, rules, is := c.Known(); is {
		out.Why = rules.Why(&known)
		if (known.Shown.Kind == access.NoCredential || known.Shown.Kind == access.Session) && who.UID != access.NoUID {
			for _, g := range rules.Counting(&known) {
				out.Groups = append(out.Groups, g.Name)
			}
		}
	}
	return ok(out)
}

type quotaQuery struct {
	User string `query:"user" maxLength:"256" doc:"Login name, user id, token:NAME or cert:NAME. Default: the caller."`
}

func (s *server) quota(ctx context.Context, in *quotaQuery) (*answer[api.Quota], error) {
	found, err := s.Desk.People.Quota(askerOf(ctx), limitsOf(ctx), in.User)
	return &answer[api.Quota]{found}, err
}

func (s *server) tokens(_ context.Context, in *Page) (*listed[api.Tokens], error) {
	page, more, err := cut(in, tokensList, in.most(), s.Desk.People.ListTokens().Tokens,
		func(t api.Token) string { return t.Name }, strings.Compare)
	if err != nil {
		return nil, err
	}
	return answerPage(in, more, api.Tokens{Tokens: page, More: more})
}

type tokenNamed struct {
	Name string `path:"name" maxLength:"128" doc:"Name of the token."`
}

func (s *server) revokeToken(ctx context.Context, in *tokenNamed) (*answer[api.Token], error) {
	revoked, err := s.Desk.People.RevokeToken(askerOf(ctx), in.Name)
	return &answer[api.Token]{revoked}, err
}
