import CLinux

// Most bytes of a head are read only to find where a name, a value or the target ends. These scans look at 16 of them
// together.

extension UnsafeBufferPointer where Element == UInt8 {
    /// The place of the first byte from `start` on that is none of `ByteClass.isPlainName`, or `count`.
    @inline(__always)
    func endOfPlainName(from start: Int) -> Int {
        first(from: start, lanyard_find_other_than_plain_name) { !ByteClass.isPlainName($0) }
    }

    /// The place of the first byte from `start` on that no request target may hold (`ByteClass.isTarget`), or `count`.
    @inline(__always)
    func endOfTarget(from start: Int) -> Int {
        first(from: start, lanyard_find_other_than_target) { !ByteClass.isTarget($0) }
    }

    /// The place of the first byte from `start` on that no field value may hold (`ByteClass.isValue`), or `count`.
    @inline(__always)
    func endOfValue(from start: Int) -> Int {
        var index = start
        while true {
            index = first(from: index, lanyard_find_controls) { $0 < 0x20 || $0 == 0x7f }
            // HTAB is the one control byte that a value may hold. Few do.
            guard index < count, self[index] == 0x09 else { return index }
            index += 1
        }
    }

    /// The place of the first byte from `start` on that is searched, or `count`.
    ///
    /// - Parameters:
    ///   - marks: which of the 16 bytes at a place are searched, the first one in the lowest bit.
    ///   - isSearched: the same of one byte.
    @inline(__always)
    private func first(
        from start: Int, _ marks: (UnsafePointer<UInt8>) -> UInt32, _ isSearched: (UInt8) -> Bool
    ) -> Int {
        guard let base = baseAddress else { return start }
        var index = start
        while index &+ 16 <= count {
            let found = marks(base + index)
            guard found == 0 else { return index &+ found.trailingZeroBitCount }
            index &+= 16
        }
        guard index < count else { return index }
        if count >= 16 {
            // The last 16 bytes: some were looked at before, and none behind the end is read.
            let found = marks(base + (count &- 16)) &>> UInt32(truncatingIfNeeded: index &- (count &- 16))
            return found == 0 ? count : index &+ found.trailingZeroBitCount
        }
        while index < count, !isSearched(base[index]) { index &+= 1 }
        return index
    }
}

/// Texts of the same length, compared by words of eight bytes. With a text that is known when the program is built the compiler
/// leaves one comparison for each word.
enum Word {
    /// Equality byte for byte. `count` is not 0.
    @inline(__always)
    static func areEqual(_ left: UnsafePointer<UInt8>, _ right: UnsafePointer<UInt8>, _ count: Int) -> Bool {
        compare(left, right, count) { $0 }
    }

    /// Equality without regard to ASCII case. `count` is not 0.
    @inline(__always)
    static func areSame(_ left: UnsafePointer<UInt8>, _ right: UnsafePointer<UInt8>, _ count: Int) -> Bool {
        compare(left, right, count, lower)
    }

    /// Equality of what `form` makes of both texts' words.
    @inline(__always)
    private static func compare(
        _ left: UnsafePointer<UInt8>, _ right: UnsafePointer<UInt8>, _ count: Int, _ form: (UInt64) -> UInt64
    ) -> Bool {
        let (left, right) = (UnsafeRawPointer(left), UnsafeRawPointer(right))
        guard count >= 8 else { return form(short(left, count)) == form(short(right, count)) }
        var index = 0
        while index < count &- 8 {
            guard form(load(left + index)) == form(load(right + index)) else { return false }
            index &+= 8
        }
        // The last word overlaps the one before it.
        return form(load(left + (count &- 8))) == form(load(right + (count &- 8)))
    }

    @inline(__always)
    private static func load(_ bytes: UnsafeRawPointer) -> UInt64 { bytes.loadUnaligned(as: UInt64.self) }

    /// All of 1 to 7 bytes, some of them twice: texts of the same length are equal if these words are.
    @inline(__always)
    private static func short(_ bytes: UnsafeRawPointer, _ count: Int) -> UInt64 {
        if count >= 4 {
            return UInt64(bytes.loadUnaligned(as: UInt32.self))
                | UInt64((bytes + (count &- 4)).loadUnaligned(as: UInt32.self)) << 32
        }
        guard count >= 2 else { return UInt64(bytes.load(as: UInt8.self)) }
        return UInt64(bytes.loadUnaligned(as: UInt16.self))
            | UInt64((bytes + (count &- 2)).loadUnaligned(as: UInt16.self)) << 16
    }

    /// ASCII letters in lower case; other bytes as they are.
    @inline(__always)
    private static func lower(_ word: UInt64) -> UInt64 {
        let (ones, highest) = (UInt64(0x0101_0101_0101_0101), UInt64(0x8080_8080_8080_8080))
        // A sum stays within its byte: seven bits are added to seven. Its highest bit is set from `A` on, or from behind `Z` on.
        let ascii = word & ~highest
        let capitals = (ascii &+ ones &* (0x80 - 0x41)) ^ (ascii &+ ones &* (0x80 - 0x5b))
        return word | (capitals & ~word & highest) >> 2
    }
}
