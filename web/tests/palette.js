// Makes a PNG of the browser smaller: the 256 most frequent colours, which is enough for screens of text.
import { deflateSync, inflateSync } from "node:zlib";

const COLOURS = 256;

/** A PNG with a palette instead of the PNG with three or four bytes per pixel. */
export function withPalette(png) {
  const { width, height, pixels, step } = decode(png);
  const counts = new Map();
  for (let at = 0; at < pixels.length; at += step) {
    const colour = (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2];
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const palette = [...counts]
    .sort((a, b) => b[1] - a[1])
    .slice(0, COLOURS)
    .map(([colour]) => colour);
  const known = new Map(palette.map((colour, index) => [colour, index]));
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0, at = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, at += step) {
      const colour = (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2];
      if (!known.has(colour)) known.set(colour, nearest(palette, colour));
      rows[y * (width + 1) + 1 + x] = known.get(colour);
    }
  }
  const header = Buffer.from(png.subarray(16, 29));
  header[8] = 8;
  header[9] = 3;
  const colours = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  return Buffer.concat([
    png.subarray(0, 8),
    chunk("IHDR", header),
    chunk("PLTE", colours),
    chunk("IDAT", deflateSync(rows, { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function nearest(palette, colour) {
  let [best, least] = [0, Infinity];
  palette.forEach((one, index) => {
    const part = (shift) => ((one >> shift) & 255) - ((colour >> shift) & 255);
    const distance = part(16) ** 2 + part(8) ** 2 + part(0) ** 2;
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}

/** The pixels of a PNG with 8 bits per channel, not interlaced. */
function decode(png) {
  const [width, height, kind] = [png.readUInt32BE(16), png.readUInt32BE(20), png[25]];
  const step = { 2: 3, 6: 4 }[kind];
  const data = [];
  for (let at = 8; at < png.length; at += png.readUInt32BE(at) + 12) {
    if (png.toString("latin1", at + 4, at + 8) === "IDAT")
      data.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  const raw = inflateSync(Buffer.concat(data));
  const line = width * step;
  const pixels = Buffer.alloc(line * height);
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (line + 1)];
    for (let x = 0; x < line; x += 1) {
      const left = x >= step ? pixels[y * line + x - step] : 0;
      const up = y > 0 ? pixels[(y - 1) * line + x] : 0;
      const corner = x >= step && y > 0 ? pixels[(y - 1) * line + x - step] : 0;
      const added = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      pixels[y * line + x] = raw[y * (line + 1) + 1 + x] + added;
    }
  }
  return { width, height, pixels, step };
}

function paeth(left, up, corner) {
  const guess = left + up - corner;
  const [a, b, c] = [left, up, corner].map((one) => Math.abs(guess - one));
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name, "latin1"), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc(body));
  return Buffer.concat([length, body, check]);
}

function crc(bytes) {
  let value = ~0;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit += 1) value = (value >>> 1) ^ (value & 1 ? 0xedb88320 : 0);
  }
  return ~value >>> 0;
}
