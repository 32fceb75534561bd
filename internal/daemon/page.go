package daemon

import (
	"net/http"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/httpapi"
	"github.com/berth-gpu/berth/internal/webui"
)

// pageGuests returns the routes of the page for people.
func pageGuests() (guests []httpapi.Guest) {
	for _, route := range webui.New().Routes() {
		guests = append(guests, httpapi.Guest{
			Operation: route.Operation, MediaType: route.MediaType,
			Serve: func(w http.ResponseWriter, r *http.Request, _ access.Actor) { route.Serve(w, r) },
		})
	}
	return guests
}
