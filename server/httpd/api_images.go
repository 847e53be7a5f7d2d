package httpd

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/trinity-lab/trinity/server/experiment"
)

// getImage serves an image's bytes as found in the corpus. They never change under their hash. The media type is told
// from the bytes, and only image types are sent: a corpus is not to be trusted.
func (a *api) getImage(w http.ResponseWriter, r *http.Request) error {
	sha := chi.URLParam(r, "sha")
	f, err := a.Images.Open(sha)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return fmt.Errorf("read image %s: %w", sha, err)
	}
	media := http.DetectContentType(head[:n])
	if !bytes.HasPrefix([]byte(media), []byte("image/")) {
		return fmt.Errorf("image %s is %s: %w", sha, media, experiment.ErrNotFound)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read image %s: %w", sha, err)
	}
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("ETag", `"`+sha+`"`)
	http.ServeContent(w, r, "", time.Time{}, f)
	return nil
}

// putImage keeps an uploaded image, for imports from other machines.
func (a *api) putImage(w http.ResponseWriter, r *http.Request) error {
	image, err := a.Images.Add(chi.URLParam(r, "sha"), r.Body)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, image)
	return nil
}

// importJournal takes a run's journal.jsonl as the body. Its images are to be uploaded before.
func (a *api) importJournal(w http.ResponseWriter, r *http.Request) error {
	if a.Importer == nil {
		return fmt.Errorf("import: %w", experiment.ErrUnsupported)
	}
	if rc := http.NewResponseController(w); rc.SetReadDeadline(time.Time{}) != nil {
		a.Log.Debug("the read deadline of an upload could not be lifted")
	}
	run, err := a.Importer.Import(r.Context(), r.Body)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, run)
	return nil
}
