package explorer

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"mime"
	"net/http"
	"path"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static/*
var staticFiles embed.FS

// pages are the templates by name, each with what all pages have.
var pages = func() map[string]*template.Template {
	common := template.Must(template.New("").Funcs(functions).ParseFS(templateFiles, "templates/page.html", "templates/parts.html"))
	out := map[string]*template.Template{}
	for _, name := range []string{"network", "blocks", "block", "transaction", "row", "deviations", "evidence", "analytics", "problem"} {
		out[name] = template.Must(template.Must(common.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return out
}()

const tagDigits = 16

// tags are of what each static file holds, so that browsers may keep it for ever.
var tags = func() map[string]string {
	out := map[string]string{}
	files, err := staticFiles.ReadDir("static")
	if err != nil {
		panic(err) // embedded when this was built
	}
	for _, f := range files {
		text, err := staticFiles.ReadFile("static/" + f.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		out[f.Name()] = hex.EncodeToString(sum[:])[:tagDigits]
	}
	return out
}()

// asset is the address of a static file.
func asset(name string) string { return "/static/" + tags[name] + "/" + name }

func serveStatic(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("file")
	text, err := staticFiles.ReadFile("static/" + name)
	if err != nil || r.PathValue("tag") != tags[name] {
		return notFound("There is no such file.")
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Write(text) // a client that went away is no error of ours
	return nil
}
