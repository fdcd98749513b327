/// Lines of a head that are forwarded as they came. Lines that stand side by side are copied together.
struct LineRun {
    private let bytes: Bytes
    /// Lines that are not written yet.
    private var range: Range<Int>

    /// - Parameters:
    ///   - bytes: the head's buffer.
    ///   - range: what is copied before the first line.
    init(in bytes: Bytes, beginningWith range: Range<Int> = 0..<0) {
        self.bytes = bytes
        self.range = range
    }

    @inline(__always)
    mutating func add(_ line: FieldLine, to out: inout HeadWriter) {
        let start = Int(line.nameStart)
        if line.hasWrittenForm, start == range.upperBound {
            range = Range(uncheckedBounds: (range.lowerBound, line.end))
        } else {
            begin(line, start, &out)
        }
    }

    private mutating func begin(_ line: FieldLine, _ start: Int, _ out: inout HeadWriter) {
        flush(to: &out)
        if line.hasWrittenForm {
            range = start..<line.end
        } else {
            out.write(bytes[run: start..<start + Int(line.nameLength)])
            out.write(": " as StaticString)
            out.write(bytes[run: Int(line.valueStart)..<Int(line.valueStart + line.valueLength)])
            out.write("\r\n" as StaticString)
        }
    }

    /// Writes the lines that were added.
    mutating func flush(to out: inout HeadWriter) {
        if !range.isEmpty { out.write(bytes[run: range]) }
        range = range.upperBound..<range.upperBound
    }
}
