package server

import (
	"time"

	"github.com/trinity-lab/trinity/server/experiment"
	"github.com/trinity-lab/trinity/server/httpd"
)

// pages are the HTML pages over the service.
func pages(service *experiment.Service, o Options) httpd.Pages {
	site, err := httpd.NewSite(service, o.Log, time.Now)
	if err != nil { // the embedded files can't be read: the API alone is better than nothing
		o.Log.Error("pages are off", "error", err)
		return nil
	}
	return site
}
