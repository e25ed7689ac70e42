from lxml import etree, html
root = etree.fromstring("<a><b n='1'>x</b><b n='2'>y</b></a>")
print(root.xpath("//b[@n='2']/text()"), etree.tostring(root).decode(), html.fromstring("<p>Hi <b>you</b></p>").text_content())
sheet = etree.XSLT(etree.XML("""<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><n><xsl:value-of select="count(//b)"/></n></xsl:template></xsl:stylesheet>"""))
print(str(sheet(root)).splitlines()[-1])
