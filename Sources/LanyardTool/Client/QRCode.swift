import Glibc
import LanyardClient

/// A QR code for a terminal, made by libqrencode where it is installed.
///
/// The library is loaded at run time: one command shows a code, and the program should start without it. Without the library there is no
/// code, and the address stands above.
struct QRCode {
    /// `QRcode` of qrencode.h.
    private struct Matrix {
        var version: CInt
        var width: CInt
        var data: UnsafeMutablePointer<UInt8>?
    }

    private typealias Encode =
        @convention(c) (UnsafePointer<CChar>, CInt, CInt, CInt, CInt) -> UnsafeMutableRawPointer?
    private typealias Free = @convention(c) (UnsafeMutableRawPointer?) -> Void

    /// Modules that the standard wants to be light around a code.
    private static let margin = 4

    private let width: Int
    /// True: dark. Row by row.
    private let modules: [Bool]

    /// nil: the library is missing, or the text is too long.
    init?(_ text: String) {
        guard let library = dlopen("libqrencode.so.4", RTLD_NOW | RTLD_LOCAL),
            let encode = dlsym(library, "QRcode_encodeString"), let free = dlsym(library, "QRcode_free")
        else { return nil }
        // Version: the least that holds the text; level L, 8 bit, case sensitive.
        let made = unsafeBitCast(encode, to: Encode.self)(text, 0, 0, 2, 1)
        guard let made else { return nil }
        defer { unsafeBitCast(free, to: Free.self)(made) }
        let matrix = made.assumingMemoryBound(to: Matrix.self).pointee
        guard let data = matrix.data, 21...177 ~= matrix.width else { return nil }
        width = Int(matrix.width)
        modules = (0..<width * width).map { data[$0] & 1 == 1 }
    }

    /// Two rows of modules in each line. Light modules are drawn, for terminals with light text on a dark ground.
    ///
    /// - Parameter columns: of the terminal, which would break longer lines, so that nothing could read them; nil: unknown.
    func text(columns: Int?) -> OperatorText {
        let needed = width + 2 * Self.margin
        if let columns, columns < needed {
            return OperatorText(line: "(a QR code of it needs \(needed) columns, and the terminal has \(columns))")
        }
        let rows = stride(from: -Self.margin, to: width + Self.margin, by: 2).map { row in
            (-Self.margin..<width + Self.margin).map { column in
                switch (isDark(row, column), isDark(row + 1, column)) {
                case (false, false): "\u{2588}"
                case (false, true): "\u{2580}"
                case (true, false): "\u{2584}"
                case (true, true): " "
                }
            }.joined()
        }
        return OperatorText(rows.map { OperatorText(line: $0) })
    }

    private func isDark(_ row: Int, _ column: Int) -> Bool {
        guard 0..<width ~= row, 0..<width ~= column else { return false }
        return modules[row * width + column]
    }
}
