package safetensors

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReadReferenceFile(t *testing.T) {
	f, err := Open("testdata/reference.safetensors") // made by testdata/make.py
	require.NoError(t, err)
	defer f.Close()
	require.ElementsMatch(t, []string{"half", "single", "scalar", "empty", "ids", `näme "q"`}, f.Names())
	require.Equal(t, map[string]string{"format": "np"}, f.Metadata())

	info, ok := f.Info("single")
	require.True(t, ok)
	require.Equal(t, Info{DType: F32, Shape: []int{2, 3}, File: "testdata/reference.safetensors"}, info)
	got, err := f.Float32("single")
	require.NoError(t, err)
	require.Equal(t, []float32{0, .25, .5, .75, 1, 1.25}, got)

	got, err = f.Float32("half")
	require.NoError(t, err)
	inf := float32(math.Inf(1))
	require.Equal(t, []float32{0, 0x1p-24, 0x1p-14 - 0x1p-24, 0x1p-14, 1, 65504, inf,
		float32(math.Copysign(0, -1)), -0x1p-24, -1, -inf}, got)
	require.True(t, math.Signbit(float64(got[7])))

	got, err = f.Float32("scalar")
	require.NoError(t, err)
	require.Equal(t, []float32{-1.5}, got)
	got, err = f.Float32("empty")
	require.NoError(t, err)
	require.Empty(t, got)

	_, err = f.Float32("ids")
	require.ErrorContains(t, err, "dtype I64 cannot be read")
	_, err = f.Float32("absent")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, f.ReadInto("single", make([]float32, 5)), "6 elements, but room was made for 5")
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err = f.Float32("single")
	require.ErrorIs(t, err, os.ErrClosed)
}

func TestHalfToFloatKeepsNaN(t *testing.T) {
	require.True(t, math.IsNaN(float64(halfToFloat(0x7e00))))
	require.True(t, math.IsNaN(float64(halfToFloat(0xfc01))))
}

func TestFloatToBF16(t *testing.T) {
	for _, c := range []struct {
		in, want uint32 // float32 bits, before and after
	}{
		{0x3f800000, 0x3f800000},
		{0x3f808000, 0x3f800000}, // tie, even below
		{0x3f818000, 0x3f820000}, // tie, even above
		{0x3f808001, 0x3f810000},
		{0x3f807fff, 0x3f800000},
		{0x7f7fffff, 0x7f800000}, // the largest float overflows to infinity
		{0x80000001, 0x80000000},
		{0x7f800001, 0x7fc00000}, // signalling NaN
		{0xff800000, 0xff800000},
	} {
		require.Equal(t, c.want, uint32(floatToBF16(math.Float32frombits(c.in)))<<16, "%#x", c.in)
	}
	require.Equal(t, float32(1), math.Float32frombits(uint32(floatToBF16(0.999))<<16))
}

func TestWriteThenReadIsExact(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "model.safetensors")
		names := rapid.SliceOfNDistinct(rapid.String().Filter(func(s string) bool { return s != "__metadata__" }), 0, 5, rapid.ID).Draw(t, "names")
		var tensors []Tensor
		for _, name := range names {
			shape := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 3).Draw(t, "shape")
			n := 1
			for _, d := range shape {
				n *= d
			}
			data := rapid.SliceOfN(rapid.Float32(), n, n).Draw(t, "data")
			tensors = append(tensors, Tensor{name, rapid.SampledFrom([]DType{F32, BF16}).Draw(t, "dtype"), shape, data})
		}
		metadata := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata")
		require.NoError(t, Write(path, tensors, metadata))
		first, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Zero(t, binary.LittleEndian.Uint64(first)%8)

		f, err := Open(path)
		require.NoError(t, err)
		defer f.Close()
		require.Len(t, f.Names(), len(tensors))
		for _, w := range tensors {
			info, ok := f.Info(w.Name)
			require.True(t, ok)
			require.Equal(t, w.DType, info.DType)
			require.Equal(t, len(w.Shape), len(info.Shape))
			got, err := f.Float32(w.Name)
			require.NoError(t, err)
			for i, v := range w.Data {
				if w.DType == BF16 {
					v = math.Float32frombits(uint32(floatToBF16(v)) << 16)
				}
				require.Equal(t, math.Float32bits(v), math.Float32bits(got[i]))
			}
		}
		require.NoError(t, Write(path, tensors, metadata))
		second, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, first, second, "equal input, equal bytes")
	})
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	one := []float32{1}
	for want, tensors := range map[string][]Tensor{
		"used twice":       {{"a", F32, []int{1}, one}, {"a", F32, []int{1}, one}},
		"reserved":         {{"__metadata__", F32, []int{1}, one}},
		"does not hold 1":  {{"a", F32, []int{2}, one}},
		"[-1] does not":    {{"a", F32, []int{-1}, one}},
		"cannot write":     {{"a", F16, []int{1}, one}},
		"not UTF-8":        {{"\xff", F32, []int{1}, one}},
		"4611686018427387": {{"a", F32, []int{1 << 62, 4}, one}},
	} {
		require.ErrorContains(t, Write(filepath.Join(dir, "x"), tensors, nil), want)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "a refused write leaves nothing behind")
}

// build puts a length prefix before a header and data bytes after it.
func build(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func openBytes(b []byte) (*File, error) { return newFile("memory", memory(b), int64(len(b))) }

func TestRefusesMalformedFiles(t *testing.T) {
	const a = `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	for _, c := range []struct {
		name, want string
		file       []byte
	}{
		{"empty", "0 bytes, fewer than the 8", nil},
		{"lfs pointer", "exceeds 100000000", []byte("version https://git-lfs.github.com/spec/v1\n")},
		{"header longer than file", "does not fit", append(binary.LittleEndian.AppendUint64(nil, 100), '{')},
		{"header of nothing", "does not fit", make([]byte, 16)},
		{"space before brace", "start with '{'", build(" "+a+"}", 4)},
		{"not utf-8", "not UTF-8", build("{\"\xff\":1}", 0)},
		{"truncated json", "EOF", build(a, 4)},
		{"array", "start with '{'", build("[1]", 0)},
		{"rubbish after", "only spaces may pad", build(a+"}x", 4)},
		{"newline after", "only spaces may pad", build(a+"}\n", 4)},
		{"duplicate tensor", `duplicate tensor "a"`, build(a+","+a[1:]+"}", 4)},
		{"duplicate key", `duplicate key "dtype"`, build(`{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)},
		{"duplicate metadata", `duplicate key "__metadata__"`, build(`{"__metadata__":{},"__metadata__":{}}`, 0)},
		{"metadata number", "where a string should be", build(`{"__metadata__":{"a":1}}`, 0)},
		{"unknown key", `unknown key "Dtype"`, build(`{"a":{"Dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)},
		{"missing key", "shape is missing", build(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4)},
		{"unknown dtype", `unknown dtype "Q4"`, build(`{"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}}`, 4)},
		{"three offsets", "more than 2", build(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, 4)},
		{"offsets reversed", "should be [begin, end]", build(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 4)},
		{"negative", "not an integer", build(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4)},
		{"fraction", "not an integer", build(`{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}`, 4)},
		{"wrong size", "does not fill its 4 bytes", build(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4)},
		{"overflowing shape", "does not fill", build(`{"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,0]}}`, 0)},
		{"overflowing bytes", "does not fill", build(`{"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}}`, 0)},
		{"hole", "a hole before it", build(a+`,"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}}`, 6)},
		{"hole at start", "a hole before it", build(`{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2)},
		{"overlap", "inside the tensor before it", build(a+`,"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}`, 5)},
		{"same bytes twice", "inside the tensor before it", build(a+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)},
		{"data too short", "the tensors end at byte 4, the data at byte 3", build(a+"}", 3)},
		{"data too long", "the tensors end at byte 4, the data at byte 5", build(a+"}", 5)},
		{"deep nesting", "where", build(`{"a":`+strings.Repeat("[", 5000)+`}`, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := openBytes(c.file)
			require.ErrorIs(t, err, ErrFormat)
			require.ErrorContains(t, err, c.want)
			path := filepath.Join(t.TempDir(), "f")
			require.NoError(t, os.WriteFile(path, c.file, 0o600))
			_, err = Open(path)
			require.ErrorIs(t, err, ErrFormat)
			require.ErrorContains(t, err, path)
		})
	}
}

func TestAcceptsAnyTensorOrderAndPadding(t *testing.T) {
	f, err := openBytes(build(`{"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},"z":{"dtype":"U8","shape":[0],"data_offsets":[4,4]},"a":{"shape":[],"data_offsets":[0,4],"dtype":"F32"}}   `, 6))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "z", "b"}, f.Names())
	_, err = openBytes(build("{}", 0))
	require.NoError(t, err)
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Open(t.TempDir())
	require.ErrorContains(t, err, "not a regular file")
}

func TestOpenDir(t *testing.T) {
	write := func(t *testing.T, path string, names ...string) {
		var ts []Tensor
		for i, n := range names {
			ts = append(ts, Tensor{n, F32, []int{1}, []float32{float32(i + 1)}})
		}
		require.NoError(t, Write(path, ts, nil))
	}
	index := func(t *testing.T, dir, weightMap string) {
		body := fmt.Sprintf(`{"metadata":{"total_size":12},"weight_map":%s}`, weightMap)
		require.NoError(t, os.WriteFile(filepath.Join(dir, IndexFile), []byte(body), 0o600))
	}
	t.Run("shards", func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "s2"), "c")
		write(t, filepath.Join(dir, "s1"), "a", "b")
		index(t, dir, `{"c":"s2","a":"s1","b":"s1"}`)
		s, err := OpenDir(dir)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, s.Names())
		info, ok := s.Info("c")
		require.True(t, ok)
		require.Equal(t, []int{1}, info.Shape)
		_, ok = s.Info("d")
		require.False(t, ok)
		v, err := s.Float32("b")
		require.NoError(t, err)
		require.Equal(t, []float32{2}, v)
		require.NoError(t, s.ReadInto("c", v))
		require.Equal(t, []float32{1}, v)
		require.ErrorIs(t, s.ReadInto("d", v), ErrNotFound)
		require.NoError(t, s.Close())
		require.ErrorIs(t, s.ReadInto("c", v), os.ErrClosed)
	})
	t.Run("single", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "odd[name]*")
		require.NoError(t, os.Mkdir(dir, 0o700))
		_, err := OpenDir(dir)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "looked for")
		write(t, filepath.Join(dir, "adapter_model.safetensors"), "a")
		s, err := OpenDir(dir)
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, s.Names())
		require.NoError(t, s.Close())
		write(t, filepath.Join(dir, SingleFile), "m")
		s, err = OpenDir(dir)
		require.NoError(t, err)
		require.Equal(t, []string{"m"}, s.Names())
		require.NoError(t, s.Close())
	})
	for _, c := range []struct{ name, weightMap, want string }{
		{"escaping path", `{"a":"../s1"}`, "not a plain file name"},
		{"absolute path", `{"a":"/s1"}`, "not a plain file name"},
		{"missing shard", `{"a":"s9"}`, "s9"},
		{"unlisted tensor", `{"a":"s1"}`, `holds tensor "b"`},
		{"absent tensor", `{"a":"s1","b":"s1","z":"s1"}`, `tensor "z" is not in shard`},
		{"empty map", `{}`, "weight_map is missing or empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "s1"), "a", "b")
			index(t, dir, c.weightMap)
			_, err := OpenDir(dir)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// FuzzReader: whatever is accepted obeys the format's invariants and reads
// without a fault.
func FuzzReader(f *testing.F) {
	ref, err := os.ReadFile("testdata/reference.safetensors")
	require.NoError(f, err)
	f.Add(ref)
	f.Add(build(`{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"__metadata__":{"k":"v"}}`, 4))
	f.Add(build("{}", 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := openBytes(b)
		if err != nil {
			require.ErrorIs(t, err, ErrFormat)
			return
		}
		total := 0
		for _, name := range file.Names() {
			info, ok := file.Info(name)
			require.True(t, ok)
			n := 1
			for _, d := range info.Shape {
				n *= d
			}
			total += n * int(info.DType.bytes())
			if v, err := file.Float32(name); err == nil {
				require.Len(t, v, n)
			}
		}
		require.Equal(t, len(b)-int(file.data), total)
	})
}
