// Writes golang.json beside this file: what the Go implementations of these formats make of the same keys and leaves.
//
//	go mod init vectors && go get golang.org/x/mod github.com/transparency-dev/formats && go run golang.go > golang.json
//
// golang.org/x/mod/sumdb/tlog and note are the implementations that C2SP tlog-tiles and signed-note were written from;
// github.com/transparency-dev/formats/note is what most witnesses sign with. Cosignatures have the time at which this ran.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	formats "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const mostProofs = 70

var sizes = []int64{1, 2, 3, 70, 255, 256, 257, 511, 512, 600, 65535, 65536, 65537, 70000}

type hashes []tlog.Hash

func (h hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		out[i] = h[index]
	}
	return out, nil
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func joined(proof []tlog.Hash) []byte {
	out := []byte{byte(len(proof))}
	for _, hash := range proof {
		out = append(out, hash[:]...)
	}
	return out
}

func skey(name string, seed []byte) (string, string) {
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	vkey := must(note.NewEd25519VerifierKey(name, public))
	short := strings.Split(vkey, "+")[1]
	return fmt.Sprintf("PRIVATE+KEY+%s+%s+%s", name, short, base64.StdEncoding.EncodeToString(append([]byte{1}, seed...))), vkey
}

func main() {
	stored := hashes{}
	for n := int64(0); n < sizes[len(sizes)-1]; n++ {
		stored = append(stored, must(tlog.StoredHashes(n, []byte(fmt.Sprintf("leaf %d", n)), stored))...)
	}
	trees, proofs := []any{}, []any{}
	for _, size := range sizes {
		paths, data := []string{}, []byte{}
		tiles := tlog.NewTiles(8, 0, size)
		for index, tile := range tiles {
			// Older versions list a partial tile at every width it ever had; the widest is last.
			if index+1 < len(tiles) && tiles[index+1].L == tile.L && tiles[index+1].N == tile.N {
				continue
			}
			paths = append(paths, strings.Replace(tile.Path(), "tile/8/", "tile/", 1))
			data = append(data, must(tlog.ReadTileData(tile, stored))...)
		}
		root := must(tlog.TreeHash(size, stored))
		trees = append(trees, map[string]any{
			"size": size, "root": hex.EncodeToString(root[:]), "tiles": len(paths),
			"paths": digest([]byte(strings.Join(paths, "\n"))), "data": digest(data),
		})
	}
	for size := int64(1); size <= mostProofs; size++ {
		inclusion, consistency := []byte{}, []byte{}
		for n := int64(0); n < size; n++ {
			inclusion = append(inclusion, joined(must(tlog.ProveRecord(size, n, stored)))...)
			consistency = append(consistency, joined(must(tlog.ProveTree(size, n+1, stored)))...)
		}
		proofs = append(proofs, map[string]any{
			"size": size, "inclusion": digest(inclusion), "consistency": digest(consistency),
		})
	}

	notes := []any{}
	for index, size := range sizes {
		logSeed, witnessSeed := bytes.Repeat([]byte{byte(index)}, 32), bytes.Repeat([]byte{byte(100 + index)}, 32)
		origin, name := fmt.Sprintf("log%d.example/t\u00e4st", index), fmt.Sprintf("witness%d.example/w", index)
		logSkey, logVkey := skey(origin, logSeed)
		witnessSkey, witnessVkey := skey(name, witnessSeed)
		text := fmt.Sprintf("%s\n%d\n%s\n", origin, size, must(tlog.TreeHash(size, stored)))
		signed := must(note.Sign(&note.Note{Text: text}, must(note.NewSigner(logSkey))))
		opened := must(note.Open(signed, note.VerifierList(must(note.NewVerifier(logVkey)))))
		cosigner := must(formats.NewSignerForCosignatureV1(witnessSkey))
		cosigned := must(note.Sign(opened, cosigner))
		verifier := must(formats.NewVerifierForCosignatureV1(witnessVkey))
		again := must(note.Open(cosigned, note.VerifierList(verifier)))
		blob := must(base64.StdEncoding.DecodeString(again.Sigs[0].Base64))
		public := ed25519.NewKeyFromSeed(witnessSeed).Public().(ed25519.PublicKey)
		notes = append(notes, map[string]any{
			"origin": origin, "log_seed": hex.EncodeToString(logSeed), "log_vkey": logVkey, "size": size, "note": string(signed),
			"witness": name, "witness_seed": hex.EncodeToString(witnessSeed),
			"witness_vkey": fmt.Sprintf("%s+%08x+%s", name, verifier.KeyHash(), base64.StdEncoding.EncodeToString(append([]byte{4}, public...))),
			"time_s":       binary.BigEndian.Uint64(blob[4:12]), "cosigned": string(cosigned),
		})
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]any{
		"origin": "Written by golang.go with golang.org/x/mod v0.6.0-dev.0.20220419223038-86c51ed26bb4 (as Debian's golang-1.19-src " +
			"vendors it) and github.com/transparency-dev/formats ab48919ddbf71a04f3eb2c20b8ac221b34ebc822, Go 1.19.8",
		"witness": "Made by other implementations in another language; the leaves are `leaf N`. Of each list of proofs, paths and " +
			"tiles there is one SHA-256: proofs in order of index or old size (1 to size), each with its length in a byte before " +
			"it; paths joined by newlines, in the order of level and number, without the height that Go has in them",
		"trees": trees, "proofs": proofs, "notes": notes,
	}); err != nil {
		panic(err)
	}
}
