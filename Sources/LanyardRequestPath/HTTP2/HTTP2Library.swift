import CNGHTTP2

/// libnghttp2 as the dynamic linker has found it.
package enum HTTP2Library {
    /// 1.52.0, as `nghttp2_version` has it: one byte each. The revision of a distribution, which may have a fix that this version lacks, is
    /// not in it.
    private static let versionMin: CInt = 0x01_34_00

    /// What `lanyard check` warns of; nil: nothing.
    package static var warning: String? { warning(ofVersion: nghttp2_version(0).pointee.version_num) }

    /// The same of a given version.
    static func warning(ofVersion version: CInt) -> String? {
        guard version < versionMin else { return nil }
        let bytes = [version >> 16, version >> 8 & 0xff, version & 0xff]
        let text = bytes.map { "\($0)" }.joined(separator: ".")
        return "libnghttp2 \(text) is older than 1.52.0, and may lack the fix of CVE-2026-27135; "
            + "install libnghttp2-14 1.52.0-1+deb12u3 of Debian 12, or a newer version"
    }
}
