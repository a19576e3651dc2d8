//! Pages and their Markdown.

use super::*;

#[test]
fn pages_become_markdown() {
    let table = [
        ("<h1>A  b</h1><p>c <b>d</b> <em>e</em></p>", "# A b\n\nc **d** *e*"),
        ("<p>See <a href=\"/x?a=1&amp;b\">the\n page</a>.", "See [the page](/x?a=1&b)."),
        ("<ul><li>a<li>b<ul><li>c</li></ul></li></ul><p>d", "*   a\n*   b\n    *   c\n\nd"),
        ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
        ("<pre><code>x  &lt;\n\n\ny</code></pre>z", "```\nx  <\n\ny\n```\n\nz"),
        ("<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n\n> b\n\nc"),
        ("a <code>b</code><br>c &#65;&#x42;&nope; &euro;", "a `b`\nc AB&nope; €"),
        ("<nav>n</nav><header>h</header><script>if (a<b) {}</script>x<style>p{}</style><!-- c -->y", "xy"),
        ("<body>b<article>a<main>m</main></article></body>", "m"),
        ("<body>b<article>a</article></body>", "a"),
        ("<head><title>t</title></head><body>b</body>", "b"),
        ("<img src=a.png alt=\"A\"><a name=x>n</a><a href=y></a>", "![A](a.png)n"),
        ("<table><tr><th>a<th>b</tr><tr><td>c<td>d</tr></table>", "| a| b|\n| --- | --- |\n| c| d|"),
        ("a < b & c > d", "a < b & c > d"),
        ("<a title=\"x > y\" href='z'>q</a>", "[q](z)"),
        ("<p", "<p"),
        ("", ""),
    ];
    for (html, expected) in table {
        assert_eq!(to_markdown(html), expected, "{html}");
    }
}
