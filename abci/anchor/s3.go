package anchor

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Credentials are the keys of an S3-compatible store. They show in no text made of them.
type Credentials struct{ keys aws.Credentials }

// NewCredentials takes an access key and, for keys that end, the session token that goes with it.
func NewCredentials(id, secret, session string) (Credentials, error) {
	if id == "" || secret == "" {
		return Credentials{}, errors.New("access key id and secret access key are both needed")
	}
	return Credentials{aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: session}}, nil
}

// Format implements fmt.Formatter, for every verb.
func (Credentials) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(credentials)")) }

// ParseCredentials reads one section of a file as ~/.aws/credentials. Errors quote nothing of it.
func ParseCredentials(text string) (Credentials, error) {
	values := map[string]string{}
	sections := 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch name, value, assigns := strings.Cut(line, "="); {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			if sections++; sections > 1 {
				return Credentials{}, fmt.Errorf("line %d: a second section, one is wanted", i+1)
			}
		case !assigns:
			return Credentials{}, fmt.Errorf("line %d: not name = value", i+1)
		default:
			values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	c, err := NewCredentials(values["aws_access_key_id"], values["aws_secret_access_key"], values["aws_session_token"])
	if err != nil {
		return c, errors.New("aws_access_key_id and aws_secret_access_key are both needed")
	}
	return c, nil
}

// NewS3 takes the URL of a bucket of an S3-compatible store, or of a place in it, spelled as the
// store has it (bucket in the path or in the host name). Requests are signed (AWS Signature Version
// 4) for the region with what credentials says at that time.
func NewS3(base, region string, credentials func() (Credentials, error)) (*HTTP, error) {
	h, err := NewHTTP(base, "")
	if err != nil {
		return nil, err
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }) // the path is escaped, and S3 signs it once
	h.authorize = func(request *http.Request, body []byte) error {
		c, err := credentials()
		if err != nil {
			return err
		}
		if body != nil { // S3 takes nothing into a bucket with object lock without it
			sum := md5.Sum(body)
			request.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(sum[:]))
		}
		request.URL.RawPath = escaped(request.URL.Path)
		sum := sha256.Sum256(body)
		hash := hex.EncodeToString(sum[:])
		request.Header.Set("X-Amz-Content-Sha256", hash)
		return signer.SignHTTP(request.Context(), c.keys, request, hash, "s3", region, time.Now())
	}
	return h, nil
}

// escaped is a path as S3 signs it, whatever else a URL might hold unescaped: all but slashes and
// RFC 3986's unreserved characters.
func escaped(path string) string {
	return strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(path))
}

// reason is why an S3-compatible store refused, to go after the status; empty when the answer does
// not say it as S3 does.
func reason(answer []byte) string {
	var said struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}
	if xml.Unmarshal(answer, &said) != nil {
		return ""
	}
	return fmt.Sprintf(": %.100s: %.300s", said.Code, said.Message)
}
