/**
 * Reads what an ELF file says about itself. dlopen's own messages do not tell a
 * person that a library was built for another processor or another libc.
 */

import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

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
 * @returns {{arch: string, interpreter: string | undefined, isWhole: boolean} | undefined} undefined: not a little-endian
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
      isWhole: isWhole(file, header),
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
  const program = programs(file, header).find(({ type }) => type === PT_INTERP)
  return program && read(file, program.offset, Math.min(Number(program.length), PATH_MAX)).toString('latin1').replace(/\0.*/s, '')
}

/**
 * Of a file that was cut short, as by a full disk, the loader maps what is not there, and the process ends with SIGBUS.
 * @param {number} file
 * @param {Buffer} header
 */
function isWhole(file, header) {
  const ends = programs(file, header).map(({ offset, length }) => offset + length)
  ends.push(header.readBigUInt64LE(32) + BigInt(header.readUInt16LE(54) * header.readUInt16LE(56)))
  const size = fstatSync(file, { bigint: true }).size
  return ends.every((end) => end <= size)
}

/**
 * @param {number} file
 * @param {Buffer} header
 * @returns {{type: number, offset: bigint, length: bigint}[]} what is mapped, as far as the table is there
 */
function programs(file, header) {
  const size = header.readUInt16LE(54)
  const table = read(file, header.readBigUInt64LE(32), size * header.readUInt16LE(56))
  const found = []
  for (let at = 0; size >= PROGRAM_HEADER && at + PROGRAM_HEADER <= table.length; at += size) {
    found.push({ type: table.readUInt32LE(at), offset: table.readBigUInt64LE(at + 8), length: table.readBigUInt64LE(at + 32) })
  }
  return found
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
