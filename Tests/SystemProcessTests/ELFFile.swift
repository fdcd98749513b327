import Foundation
import TestSupport

@testable import SystemTestSupport

/// As much of a 64-bit little-endian ELF file as tells which libraries it needs (`DT_NEEDED`).
struct ELFFile {
    private enum Tag { static let needed: UInt64 = 1, stringTable: UInt64 = 5 }
    private enum Segment { static let load: UInt32 = 1, dynamic: UInt32 = 2 }

    let neededLibraries: [String]

    init(path: String) throws {
        let bytes = try Data(contentsOf: URL(fileURLWithPath: path), options: .alwaysMapped)
        guard bytes.starts(with: [0x7f, 0x45, 0x4c, 0x46, 2, 1]) else {
            throw TestFailure("\(path) is no 64-bit little-endian ELF file")
        }
        let image = Image(bytes: bytes)
        let segments = image.segments
        guard let dynamic = segments.first(where: { $0.type == Segment.dynamic }) else {
            throw TestFailure("\(path) is linked statically")
        }
        let entries = stride(from: dynamic.offset, to: dynamic.offset + dynamic.size, by: 16).map {
            (tag: image.word64($0), value: image.word64($0 + 8))
        }
        guard let address = entries.first(where: { $0.tag == Tag.stringTable })?.value,
            let segment = segments.first(where: {
                $0.type == Segment.load && address >= $0.address && address < $0.address + UInt64($0.size)
            })
        else { throw TestFailure("\(path) has no string table") }
        let table = segment.offset + Int(address - segment.address)
        neededLibraries = entries.filter { $0.tag == Tag.needed }.map { image.string(table + Int($0.value)) }
    }

    private struct Image {
        let bytes: Data

        func word16(_ offset: Int) -> Int { Int(bytes[offset]) | Int(bytes[offset + 1]) << 8 }

        func word32(_ offset: Int) -> UInt32 {
            (0..<4).reduce(0) { $0 | UInt32(bytes[offset + $1]) << (8 * UInt32($1)) }
        }

        func word64(_ offset: Int) -> UInt64 { UInt64(word32(offset)) | UInt64(word32(offset + 4)) << 32 }

        func string(_ offset: Int) -> String { String(decoding: bytes[offset...].prefix { $0 != 0 }, as: UTF8.self) }

        var segments: [(type: UInt32, offset: Int, address: UInt64, size: Int)] {
            let start = Int(word64(32))
            return (0..<word16(56)).map { index in
                let header = start + index * word16(54)
                return (word32(header), Int(word64(header + 8)), word64(header + 16), Int(word64(header + 32)))
            }
        }
    }
}
