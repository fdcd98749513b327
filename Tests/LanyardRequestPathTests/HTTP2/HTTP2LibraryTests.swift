import Testing

@testable import LanyardRequestPath

/// What `lanyard check` says of the codec's library.
@Suite struct HTTP2LibraryTests {
    @Test(
        "a version below 1.52.0 has a warning, which names it",
        arguments: [(0x01_33_ff, "1.51.255"), (0x01_2b_00, "1.43.0"), (0x00_ff_ff, "0.255.255"), (0, "0.0.0")]
            as [(CInt, String)])
    func old(version: CInt, name: String) throws {
        let warning = try #require(HTTP2Library.warning(ofVersion: version))
        #expect(warning.hasPrefix("libnghttp2 \(name) is older than 1.52.0, and may lack the fix of CVE-2026-27135; "))
        #expect(warning.contains("1.52.0-1+deb12u3"))
    }

    @Test("from 1.52.0 on there is none", arguments: [0x01_34_00, 0x01_34_01, 0x01_44_00, 0x02_00_00] as [CInt])
    func recent(version: CInt) { #expect(HTTP2Library.warning(ofVersion: version) == nil) }

    @Test("the library of this process has a version that the build accepts")
    func own() { #expect(HTTP2Library.warning == nil) }
}
