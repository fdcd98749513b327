/// A message of the differential tests, and how it is to be read.
struct HTTPMessage {
    enum Kind: UInt8, CaseIterable { case request, response, responseToHead }

    var kind: Kind
    var bytes: [UInt8]

    /// With everything that does not print escaped.
    var shown: String { bytes.map { String(UnicodeScalar($0).escaped(asASCII: true)) }.joined() }
}
