/**
 * Reads what an ELF file says about itself. dlopen's own messages do not tell a
 * person that a library was built for another processor or another libc.
 */

import { closeSync, openSync, readSync } from 'node:fs'

const MACHINES = new Map([
  [0x03, 'ia32'],
  [0x28, 'arm'],
  [0x3e, 'x64'],
  [0xb7, 'arm64'],
  [0xf3, 'riscv64'],
])
const PT_INTERP = 3
const HEADER = 64
const PROGRAM_HEADER = 56
const PATH_MAX = 4096

/**
 * @param {string} path
 * @returns {{arch: string, interpreter: string | undefined} | undefined} undefined: not a little-endian
 *   64-bit ELF file. arch is in the words of process.arch
 */
export function readElf(path) {
  const file = openSync(path, 'r')
  try {
    const header = read(file, 0n, HEADER)
    if (header.length < HEADER || header.toString('latin1', 0, 6) !== '\x7fELF\x02\x01') return undefined
    const machine = header.readUInt16LE(18)
    return {
      arch: MACHINES.get(machine) ?? `ELF machine ${machine}`,
      interpreter: interpreter(file, header),
    }
  } finally {
    closeSync(file)
  }
}

/**
 * @param {number} file
 * @param {Buffer} header
 */
function interpreter(file, header) {
  const size = header.readUInt16LE(54)
  const table = read(file, header.readBigUInt64LE(32), size * header.readUInt16LE(56))
  for (let at = 0; size >= PROGRAM_HEADER && at + PROGRAM_HEADER <= table.length; at += size) {
    if (table.readUInt32LE(at) !== PT_INTERP) continue
    const length = Number(table.readBigUInt64LE(at + 32))
    const name = read(file, table.readBigUInt64LE(at + 8), Math.min(length, PATH_MAX))
    return name.toString('latin1').replace(/\0.*/s, '')
  }
  return undefined
}

/**
 * @param {number} file
 * @param {bigint} position from the file itself, so maybe nonsense: nothing is read there
 * @param {number} length
 */
function read(file, position, length) {
  if (position > Number.MAX_SAFE_INTEGER) return Buffer.alloc(0)
  const buffer = Buffer.alloc(length)
  return buffer.subarray(0, readSync(file, buffer, 0, length, Number(position)))
}
