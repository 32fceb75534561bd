// Makes the file of a screenshot small: a PNG with the 256 colours that say most.
import { deflateSync, inflateSync, crc32 } from 'node:zlib';

// palette returns a PNG of Chromium, which has three or four bytes a pixel, with a
// palette.
export function palette(png) {
  const { width, height, pixels } = decode(png);
  // Colours that differ little count as one; the most frequent ones are kept.
  const found = new Map();
  const rough = (r, g, b) => ((r >> 2) << 12) | ((g >> 2) << 6) | (b >> 2);
  for (let i = 0; i < pixels.length; i += 3) {
    const key = rough(pixels[i], pixels[i + 1], pixels[i + 2]);
    const it = found.get(key);
    if (it) it.count++;
    else found.set(key, { count: 1, r: pixels[i], g: pixels[i + 1], b: pixels[i + 2] });
  }
  const all = [...found.entries()].sort((a, b) => b[1].count - a[1].count);
  const kept = [];
  // First those that are far from all that are kept, then the rest by how often they are.
  const far = (c, least) => kept.every((k) => Math.abs(k.r - c.r) + Math.abs(k.g - c.g) + Math.abs(k.b - c.b) >= least);
  for (const least of [24, 10, 0]) for (const [, c] of all) if (kept.length < 256 && !kept.includes(c) && far(c, least)) kept.push(c);
  const nearest = new Map();
  const find = (key, r, g, b) => {
    let at = nearest.get(key);
    if (at === undefined) {
      let best = Infinity;
      kept.forEach((k, i) => {
        const d = 2 * (k.r - r) ** 2 + 4 * (k.g - g) ** 2 + 3 * (k.b - b) ** 2;
        if (d < best) [best, at] = [d, i];
      });
      nearest.set(key, at);
    }
    return at;
  };
  const lines = Buffer.alloc(height * (width + 1)); // each begins with the filter none
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i += 3) lines[y * (width + 1) + 1 + x] = find(rough(pixels[i], pixels[i + 1], pixels[i + 2]), pixels[i], pixels[i + 1], pixels[i + 2]);
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), chunk('IHDR', head),
    chunk('PLTE', Buffer.from(kept.flatMap((k) => [k.r, k.g, k.b]))), chunk('IDAT', deflateSync(lines, { level: 9 })), chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name), data]);
  const frame = Buffer.alloc(4);
  frame.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([frame, body, sum]);
}

// decode reads the pixels of a PNG with 8 bits a channel that is not interlaced.
function decode(png) {
  const [width, height, depth, kind, , , interlaced] = [png.readUInt32BE(16), png.readUInt32BE(20), png[24], png[25], 0, 0, png[28]];
  const size = kind === 6 ? 4 : kind === 2 ? 3 : 0;
  if (depth !== 8 || size === 0 || interlaced !== 0) throw new Error('a PNG of another kind');
  const parts = [];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  const raw = inflateSync(Buffer.concat(parts));
  const row = width * size;
  const lines = Buffer.alloc(row * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (row + 1)];
    for (let x = 0; x < row; x++) {
      const left = x >= size ? lines[y * row + x - size] : 0;
      const up = y > 0 ? lines[(y - 1) * row + x] : 0;
      const corner = x >= size && y > 0 ? lines[(y - 1) * row + x - size] : 0;
      const guess = filter === 0 ? 0 : filter === 1 ? left : filter === 2 ? up : filter === 3 ? (left + up) >> 1 : paeth(left, up, corner);
      lines[y * row + x] = (raw[y * (row + 1) + 1 + x] + guess) & 255;
    }
  }
  if (size === 3) return { width, height, pixels: lines };
  const pixels = Buffer.alloc(width * height * 3);
  for (let i = 0, j = 0; i < lines.length; i += 4, j += 3) lines.copy(pixels, j, i, i + 3);
  return { width, height, pixels };
}

function paeth(a, b, c) {
  const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}
