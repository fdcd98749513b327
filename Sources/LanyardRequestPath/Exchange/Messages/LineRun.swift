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
    mutating func add<Sink: HeadSink & ~Copyable>(_ line: FieldLine, to out: inout Sink) {
        let start = Int(line.nameStart)
        if Sink.copiesLines, line.hasWrittenForm {
            if start != range.upperBound {
                flush(to: &out)
                range = start..<start
            }
            range = Range(uncheckedBounds: (range.lowerBound, line.end))
        } else {
            flush(to: &out)
            out.beginField(line.name(in: bytes))
            out.write(line.value(in: bytes))
            out.endField()
        }
    }

    /// Writes the lines that were added.
    mutating func flush(to out: inout some HeadSink & ~Copyable) {
        if !range.isEmpty { out.write(bytes[run: range]) }
        range = range.upperBound..<range.upperBound
    }
}
